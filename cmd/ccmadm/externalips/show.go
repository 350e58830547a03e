package externalips

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/doctor/table"
	"github.com/ccmadm/ccmadm/machine"
)

// Show prints the plan: a table, what to know of each Service, and the commands as lines for a shell.
func (p *Plan) Show(out io.Writer, kubectl []string, wide bool) error {
	if len(p.Services) == 0 {
		fmt.Fprintln(out, "No Service has externalIPs.")
		return nil
	}
	if err := p.table(out, wide); err != nil {
		return err
	}
	for _, s := range p.Services {
		if s.Reason != "" {
			fmt.Fprintf(out, "\n%s: %s: %s\n", s.Service, s.Action, s.Reason)
			if s.Do != "" {
				fmt.Fprintf(out, "    do: %s\n", s.Do)
			}
		}
		for _, note := range s.Notes {
			fmt.Fprintf(out, "\n%s: note: %s\n", s.Service, note)
		}
	}
	for _, note := range p.Notes {
		fmt.Fprintf(out, "\nnote: %s\n", note)
	}
	script, err := p.Script(kubectl)
	if err != nil || script == "" {
		return err
	}
	fmt.Fprintf(out, "\nNothing was changed. These commands move the Services that are marked %s, and take externalIPs away from those marked %s:\n\n%s",
		Move, Remove, script)
	return nil
}

func (p *Plan) table(out io.Writer, wide bool) error {
	header := []string{"SERVICE", "ADDRESSES", "POOL", "ACTION"}
	if wide {
		header = append(header, "TYPE", "PORTS", "CONFLICT")
	}
	w := table.New(out, header...)
	for _, s := range p.Services {
		var addresses, pools, conflicts []string
		for _, a := range s.Addresses {
			addresses = append(addresses, a.Address)
			pool := a.Pool
			if a.New {
				pool += " (new)"
			}
			if pool != "" && !slices.Contains(pools, pool) {
				pools = append(pools, pool)
			}
			if a.Conflict != "" {
				conflicts = append(conflicts, a.Address+": "+a.Conflict)
			}
		}
		cells := []any{s.Service, strings.Join(addresses, ","), strings.Join(pools, ","), s.Action}
		if wide {
			cells = append(cells, s.Type, strings.Join(s.Ports, ","), strings.Join(conflicts, "; "))
		}
		w.Row(cells...)
	}
	return w.Flush()
}

// Script is all commands, the AddressPools first, as a shell takes them; empty: there is nothing to do.
func (p *Plan) Script(kubectl []string) (string, error) {
	var b strings.Builder
	if len(p.Pools) > 0 {
		fmt.Fprintf(&b, "%s <<'EOF'\n", machine.ShellQuote(append(slices.Clone(kubectl), "apply", "-f", "-")...))
		for i := range p.Pools {
			text, err := yaml.Marshal(&p.Pools[i])
			if err != nil {
				return "", fmt.Errorf("encode AddressPool/%s: %w", p.Pools[i].Name, err)
			}
			if i > 0 {
				b.WriteString("---\n")
			}
			b.Write(text)
		}
		b.WriteString("EOF\n")
	}
	for _, s := range p.Services {
		if len(s.Commands) > 0 {
			fmt.Fprintf(&b, "\n# %s\n%s\n", s.Service, strings.Join(s.Commands, "\n"))
		}
	}
	return b.String(), nil
}

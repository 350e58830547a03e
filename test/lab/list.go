//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// labStatus and machineStatus are the output of `lab list -o json`.
type labStatus struct {
	Name       string          `json:"name"`
	Kubernetes string          `json:"kubernetes,omitempty"`
	Subnet     string          `json:"subnet"`
	Machines   []machineStatus `json:"machines"`
}

type machineStatus struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	PID     int    `json:"pid,omitempty"` // on the host; none when switched off
}

func newList(p *places) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show every lab and its machines",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			labs, err := allLabs(p)
			if err != nil {
				return err
			}
			status := []labStatus{}
			for _, l := range labs {
				s, err := l.status()
				if err != nil {
					return err
				}
				status = append(status, s)
			}
			switch output {
			case "json":
				return json.NewEncoder(cmd.OutOrStdout()).Encode(status)
			case "":
				return printStatus(cmd.OutOrStdout(), status)
			}
			return fmt.Errorf("output %q: want json", output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json, or a table")
	return cmd
}

func (l lab) status() (labStatus, error) {
	s := labStatus{Name: l.name, Subnet: l.subnet().String(), Machines: []machineStatus{}}
	if settings, err := l.load(); err == nil { // an `up` that crashed early leaves none
		s.Kubernetes = settings.Kubernetes
	}
	all, err := l.machines()
	if err != nil {
		return s, err
	}
	for _, m := range all {
		s.Machines = append(s.Machines, machineStatus{m.name, m.address().String(), m.pid()})
	}
	return s, nil
}

func printStatus(out io.Writer, status []labStatus) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "LAB\tKUBERNETES\tMACHINE\tADDRESS\tSTATE")
	for _, l := range status {
		for _, m := range l.Machines {
			state := "off"
			if m.PID != 0 {
				state = "on"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", l.Name, l.Kubernetes, m.Name, m.Address, state)
		}
	}
	return w.Flush()
}

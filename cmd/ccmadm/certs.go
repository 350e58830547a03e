package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/doctor/table"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func newCerts(s workflow.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "certs",
		Short: "Show and renew the certificate of this machine's cloud-controller-manager",
		Long: `A cloud-controller-manager in a static pod has a client certificate that kubeadm does not manage: neither
"kubeadm certs" nor "kubeadm upgrade" renews it. Run these commands on each control plane.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCheckExpiration(s), newRenew(s))
	return cmd
}

func newCheckExpiration(s workflow.Streams) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "check-expiration",
		Short: "Show when this machine's certificates expire",
		Long: `Shows when the certificates expire that ccmadm manages on this machine, as "kubeadm certs check-expiration" does
for kubeadm's: that of the cloud-controller-manager's static pod, and the one that the pod of the control plane's address
takes from kube-scheduler.` + usage.ExitStatuses(usage.Endings{
			finding.ExitDone:  "whatever it shows",
			finding.ExitError: "a file could not be read",
		}),
		Example: "  ccmadm certs check-expiration\n  ccmadm certs check-expiration -o json",
		Args:    usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := format.Check(); err != nil {
				return err
			}
			list, err := identity.CheckExpiration(cmd.Context(), machine.New())
			if err != nil {
				return usage.Observed(err)
			}
			return format.Write(s.Out, output.Object(list), func() error { return showExpirations(s.Out, list) })
		},
	}
	format.Declare(cmd, output.Text, output.JSON, output.YAML)
	return cmd
}

func newRenew(s workflow.Streams) *cobra.Command {
	var o workflow.Inputs
	var within time.Duration
	cmd := &cobra.Command{
		Use:   "renew",
		Short: "Sign a new certificate for this machine's cloud-controller-manager",
		Long: `Writes ` + machine.CCMKubeconfig + ` again, with a certificate for a year and all CAs that
are in ca.crt now, and restarts the static pod with it. It needs the key of the cluster's CA on this machine, and no API
server. The timer ccmadm-certs.timer runs it daily with --if-within 720h.` + usage.ExitStatuses(usage.Endings{
			finding.ExitPreflight: "this machine has no such certificate",
			finding.ExitRefused:   "the CA's key is not on this machine; nothing was changed",
		}),
		Example: `  ccmadm certs renew
  ccmadm certs renew --if-within 720h   # only in its last 30 days, or where the CA has changed`,
		Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if within < 0 || cmd.Flags().Changed("if-within") && within == 0 {
				return finding.Usagef("read --if-within: %s is not a time in the future", within)
			}
			return usage.Observed(manager.RenewCertificates(cmd.Context(), record.NewBare(machine.New(), o, s, version).Env, within))
		},
	}
	cmd.Flags().DurationVar(&within, "if-within", 0,
		"only if it expires within this time, or no longer fits the cluster's CA (default: always)")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "show what would be written, and change nothing")
	return cmd
}

func showExpirations(out io.Writer, list *identity.Expirations) error {
	if len(list.Certificates) == 0 {
		_, err := fmt.Fprintln(out, "ccmadm manages no certificate on this machine; for those of kubeadm: kubeadm certs check-expiration")
		return err
	}
	certificates := table.New(out, "CERTIFICATE", "EXPIRES", "RESIDUAL TIME", "CERTIFICATE AUTHORITY", "EXTERNALLY MANAGED")
	for _, e := range list.Certificates {
		date, left := expires(e)
		certificates.Row(e.Name, date, left, e.CAName, table.YesNo(e.ExternallyManaged))
	}
	if err := certificates.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	authorities := table.New(out, "CERTIFICATE AUTHORITY", "EXPIRES", "RESIDUAL TIME", "EXTERNALLY MANAGED")
	for _, e := range list.Authorities {
		date, left := expires(e)
		authorities.Row(e.Name, date, left, table.YesNo(e.ExternallyManaged))
	}
	if err := authorities.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, e := range list.Certificates {
		if e.Flaw != "" {
			fmt.Fprintf(out, "%s: %s\n", e.Name, e.Flaw)
		}
		if e.Renew != "" {
			fmt.Fprintf(out, "%s is renewed by: %s\n", e.Name, e.Renew)
		}
	}
	_, err := io.WriteString(out, renewedBy(list))
	return err
}

// renewedBy is a line about the timer, which renews the identity of the static pod alone.
func renewedBy(list *identity.Expirations) string {
	own := filepath.Base(machine.CCMKubeconfig)
	switch {
	case !slices.ContainsFunc(list.Certificates, func(e identity.Expiration) bool { return e.Name == own }):
		return ""
	case list.Timer:
		return "ccmadm-certs.timer renews " + own + " in time\n"
	}
	return "ccmadm-certs.timer does not run here, so " + own + " is not renewed automatically; ccmadm apply phase kubeconfig installs the " +
		"timer where systemd runs and the CA's key is\n"
}

// expires is in the form of `kubeadm certs check-expiration`.
func expires(e identity.Expiration) (date, left string) {
	switch {
	case e.Missing:
		return "!MISSING!", " "
	case e.Date.IsZero():
		return "", ""
	case e.Residual <= 0:
		return e.Date.Format("Jan 02, 2006 15:04 MST"), "<invalid>"
	}
	left = duration.ShortHumanDuration(time.Duration(e.Residual) * time.Second)
	return e.Date.Format("Jan 02, 2006 15:04 MST"), left
}

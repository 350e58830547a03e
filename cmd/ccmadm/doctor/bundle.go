package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/doctor/bundle"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/doctor/host"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// support is `ccmadm support-bundle`.
type support struct {
	doctor
	file string
}

// NewSupportBundle returns `ccmadm support-bundle`.
func NewSupportBundle(s workflow.Streams) *cobra.Command {
	var b support
	cmd := &cobra.Command{
		Use:   "support-bundle",
		Short: "Collect diagnostics into a support bundle",
		Long: `Writes a tar.gz with the input and the results of the doctor, logs of cloud-controller-managers and node agents, Events of
kube-system, the configuration of kubeadm and ccmadm, and the flags of this machine's kubelet and static pods. It changes
nothing else.

No Secret is read, and of this machine's certificates and kubeconfigs only the expiry. Values of variables and of a cloud's
configuration, and everything that looks like a credential, are removed. Names and addresses are in it, and a program may
have logged a credential in a form that is not recognized: check the file before you send it.

Objects that could not be read are listed in not-seen.txt; without a reachable cluster the file has this machine's part. It
has mode 0600, appears only when it is complete, and never replaces a file.` + usage.ExitStatuses(usage.Endings{
			finding.ExitDone:  "the file is written",
			finding.ExitError: "the file is written without the cluster, which does not answer; or it could not be written",
			finding.ExitUsage: "the file exists already",
		}),
		Example: `  ccmadm support-bundle
  ccmadm support-bundle --output /root/cp1.tar.gz`,
		Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return b.write(cmd.Context(), s) },
	}
	b.DeclareKubeconfig(cmd)
	cmd.Flags().StringVarP(&b.file, "output", "o", "", "the file (default: ccmadm-support-TIME.tar.gz in this directory)")
	cmd.Flags().StringVar(&b.root, "root", "/", "where the machine's root is mounted: in a pod with hostPID and hostNetwork, /host say")
	cmd.Flags().DurationVar(&b.timeout, "timeout", time.Minute, "time limit for the cluster; objects that were not read by then are listed")
	return cmd
}

func (b *support) write(ctx context.Context, s workflow.Streams) error {
	now := time.Now().UTC()
	if b.file == "" {
		b.file = "ccmadm-support-" + now.Format("20060102-150405") + ".tar.gz"
	}
	if err := bundle.Vacant(b.file); err != nil {
		return usage.Observed(err)
	}
	files := bundle.New(now)
	b.host = host.IsNode(machine.Host(b.root)) // of an administrator's own machine there is nothing to be found
	unseen := b.cluster(ctx, s, files)
	addMachine(files, host.Support(ctx, machine.Host(b.root)))
	if err := ctx.Err(); err != nil {
		return usage.Observed(fmt.Errorf("gather the bundle: %w", err))
	}
	if err := files.WriteFile(b.file); err != nil {
		return usage.Observed(err)
	}
	for _, line := range files.NotSeen() {
		fmt.Fprintf(s.Err, "not seen: %s\n", line)
	}
	fmt.Fprintf(s.Out, "%s written; look at it before you send it: names and addresses are in it\n", b.file)
	if unseen != nil {
		return notSeen(unseen, "the bundle has this machine's part; --kubeconfig names the cluster")
	}
	return nil
}

// cluster adds what the cluster tells. The error says that it tells nothing.
func (b *support) cluster(ctx context.Context, s workflow.Streams, files *bundle.Bundle) error {
	snapshot, err := b.snapshot(ctx, s)
	if err != nil {
		files.Missed("the cluster", err)
		return err
	}
	diagnosed := diagnosis.Diagnose(snapshot, lintManagers, lintKubeadm)
	files.Judged(snapshot, diagnosed)
	if err := snapshot.Unreached(); err != nil {
		return err
	}
	client, err := b.Client(s)
	if err != nil {
		files.Missed("the cluster", err)
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	files.Cluster(ctx, client, snapshot)
	if balancers, err := b.Network(ctx, s); err != nil {
		files.Missed("load balancers", err)
	} else {
		files.LoadBalancers(balancers)
	}
	return nil
}

// addMachine puts a machine's files below one folder.
func addMachine(files *bundle.Bundle, list []host.File) {
	for _, f := range list {
		name := "machine/" + strings.TrimPrefix(f.Name, "/")
		switch {
		case f.Err != nil:
			files.Missed("this machine's "+f.Name, f.Err)
		case f.Form == host.YAML:
			files.Document(name, f.Data)
		case f.Form == host.Secretive:
			files.Keys(name, f.Data)
		default:
			files.Text(name, string(f.Data))
		}
	}
}

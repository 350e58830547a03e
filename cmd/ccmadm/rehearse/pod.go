package rehearse

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/doctor/rehearsal"
	"github.com/ccmadm/ccmadm/doctor/rehearsal/inpod"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// inPod rehearses on a control plane of the cluster.
func (r *rehearser) inPod(
	ctx context.Context, p *templates.Profile, log io.Writer, s workflow.Streams,
) (*rehearsal.Report, error) {
	task, files, err := r.options(p, s, templates.ConfigDir)
	if err != nil {
		return nil, err
	}
	task.Program, task.Log = cmp.Or(r.program, p.ProgramInImage()), log
	holder, err := os.Hostname()
	if err != nil {
		holder = "a machine without a name" // for people only
	}
	return inpod.Run(ctx, inpod.Options{
		Cluster: task.Cluster, Profile: p, Files: files, Task: task, OwnImage: r.ownImage, Holder: holder,
		Values: templates.Values{
			Mode: templates.StaticPod, Version: r.release, Image: r.settings.ControllerManager.Image,
			ImageTag: r.settings.ControllerManager.Version, ImageRepository: r.mirror,
			ClusterName: r.settings.ClusterName, NodeLifecycle: true, Files: slices.Sorted(maps.Keys(files)),
		},
	})
}

// newCopyItself brings ccmadm into the provider's image.
func newCopyItself() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "copy-itself", Short: "Copy this program into a directory", Hidden: true, Args: usage.NoArgs,
		RunE: func(*cobra.Command, []string) error { return usage.Observed(copyItself(dir)) },
	}
	cmd.Flags().StringVar(&dir, "to", "", "the directory")
	return cmd
}

func copyItself(dir string) error {
	own, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	from, err := os.Open(own)
	if err != nil {
		return fmt.Errorf("read this program: %w", err)
	}
	defer func() { _ = from.Close() }()
	to, err := os.OpenFile(filepath.Join(dir, "ccmadm"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return fmt.Errorf("copy this program: %w", err)
	}
	_, err = io.Copy(to, from)
	if closed := to.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("copy this program to %s: %w", dir, err)
	}
	return nil
}

// newRunTask is what runs in the pod. It says everything by its standard output, as a stream that package inpod reads.
func newRunTask(s workflow.Streams, release string) *cobra.Command {
	var task, account string
	var env []string
	var log bool
	cmd := &cobra.Command{
		Use: "run-task", Short: "Run the rehearsal of a task in a pod", Hidden: true, Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sender := rehearsal.NewSender(s.Out)
			o, err := readTask(task, account, release, s.Getenv)
			if err != nil {
				return usage.Observed(sender.End(nil, err))
			}
			o.Progress = sender.Progress
			if log {
				o.Log = sender
			}
			for _, name := range env {
				o.Env = append(o.Env, name+"="+s.Getenv(name))
			}
			return usage.Observed(sender.End(rehearsal.Run(cmd.Context(), o)))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&task, "task", "", "file with the task")
	flags.StringVar(&account, "account", "", "directory with a token and the API server's CA")
	flags.StringArrayVar(&env, "env", nil, "variable of the pod that the program gets")
	flags.BoolVar(&log, "log", false, "send the program's log, too")
	return cmd
}

// readTask refuses what it does not know: a task of another version, of which it would leave a part undone.
func readTask(task, account, release string, env func(string) string) (rehearsal.Options, error) {
	var o rehearsal.Options
	data, err := os.ReadFile(task)
	if err != nil {
		return o, fmt.Errorf("read the task: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&o); err != nil {
		return o, fmt.Errorf("read the task, of ccmadm %s?: %w", release, err)
	}
	host, port := env("KUBERNETES_SERVICE_HOST"), env("KUBERNETES_SERVICE_PORT")
	o.Cluster = &rest.Config{
		Host: "https://" + net.JoinHostPort(host, port), BearerTokenFile: filepath.Join(account, "token"),
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(account, "ca.crt")}, QPS: -1,
	}
	return o, nil
}

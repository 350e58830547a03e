package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/minors"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// version is set by the linker to what `git describe` says.
var version = "dev"

func newVersion(s workflow.Streams) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version and the supported versions",
		Example: "  ccmadm version\n  ccmadm version -o short",
		Args:    usage.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := format.Check(); err != nil {
				return err
			}
			if format.Is("short") {
				_, err := fmt.Fprintln(s.Out, version)
				return err
			}
			facts := map[string]string{
				"version": version, "go": runtime.Version(), "platform": platform(), "kubeadm": kubeadmVersions(),
			}
			return format.Write(s.Out, output.Line(facts), func() error {
				_, err := fmt.Fprintln(s.Out, versionLine())
				return err
			})
		},
	}
	format.Declare(cmd, output.Text, "short", output.JSON, output.YAML)
	return cmd
}

// versionLine is what `ccmadm version` and `ccmadm --version` say.
func versionLine() string {
	return fmt.Sprintf("ccmadm %s (%s, %s), for kubeadm %s", version, runtime.Version(), platform(), kubeadmVersions())
}

func platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

func kubeadmVersions() string { return minors.Window() }

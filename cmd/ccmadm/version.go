package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/minors"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// version is set by the linker to what `git describe` says.
var version = "dev"

func newVersion(s workflow.Streams) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and what it works with",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			switch output {
			case "json":
				return json.NewEncoder(s.Out).Encode(map[string]string{
					"version": version, "go": runtime.Version(), "platform": platform(), "kubeadm": kubeadmVersions(),
				})
			case "short":
				_, err := fmt.Fprintln(s.Out, version)
				return err
			case "":
				_, err := fmt.Fprintln(s.Out, versionLine())
				return err
			}
			return finding.Usagef("read --output: %q is neither json nor short", output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or short")
	return cmd
}

// versionLine is what `ccmadm version` and `ccmadm --version` say.
func versionLine() string {
	return fmt.Sprintf("ccmadm %s (%s, %s), for kubeadm %s", version, runtime.Version(), platform(), kubeadmVersions())
}

func platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

func kubeadmVersions() string { return minors.Window() }

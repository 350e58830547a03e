package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/phases"
	"github.com/ccmadm/ccmadm/phases/kubeadm"
)

func newVersion(s phases.Streams) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and what it works with",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			info := map[string]string{
				"version": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
				"kubeadm": kubeadm.Oldest + " to " + kubeadm.Newest,
			}
			switch output {
			case "json":
				return json.NewEncoder(s.Out).Encode(info)
			case "short":
				_, err := fmt.Fprintln(s.Out, version)
				return err
			case "":
				_, err := fmt.Fprintf(s.Out, "ccmadm %s (%s, %s), for kubeadm %s\n", version, info["go"], info["platform"], info["kubeadm"])
				return err
			}
			return usage("read --output: %q is neither json nor short", output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or short")
	return cmd
}

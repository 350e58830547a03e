//go:build linux

package main

import (
	"cmp"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// places are the folders the lab works in.
type places struct {
	cache  string // what was built: safe to delete when no lab runs
	state  string // what runs: one folder for each lab
	source string // this repository; found from the working directory when empty
}

func newRoot() *cobra.Command {
	p := &places{}
	cmd := &cobra.Command{
		Use:           "lab",
		Short:         "Boot bare Kubernetes machines on one Linux box",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.PersistentFlags().StringVar(&p.cache, "cache", defaultCache(), "folder for what is built once (CCMADM_LAB_CACHE)")
	cmd.PersistentFlags().StringVar(&p.state, "state", cmp.Or(os.Getenv("CCMADM_LAB_STATE"), "/var/lib/ccmadm-lab"), "folder for running labs (CCMADM_LAB_STATE)")
	cmd.PersistentFlags().StringVar(&p.source, "source", "", "this repository (default: found from the working directory)")
	cmd.AddCommand(newUp(p), newDown(p), newList(p), newExec(p), newCopy(p), newLoad(p), newNetwork(p),
		newKill(p), newStart(p), newBuild(p), newMinor(p), newMinors(p), newNext(p), newCCM(p), newMetalLB(p), newKubeVIP(p), newPackages(p),
		newRelease(p), newUpstream(p), newMetalLBTests(p), newImage(), newBoot())
	return cmd
}

func defaultCache() string {
	if dir := os.Getenv("CCMADM_LAB_CACHE"); dir != "" {
		return dir
	}
	return filepath.Join(cmp.Or(os.Getenv("XDG_CACHE_HOME"), filepath.Join(os.Getenv("HOME"), ".cache")), "ccmadm-lab")
}

// addName declares --name as every command that works on one lab has it.
func addName(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "name", "lab", "which lab")
}

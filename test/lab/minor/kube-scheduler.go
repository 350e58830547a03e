//go:build ignore

package main

import (
	"github.com/spf13/pflag"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func flags() []*pflag.FlagSet {
	cmd := app.NewSchedulerCommand()
	return []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()}
}

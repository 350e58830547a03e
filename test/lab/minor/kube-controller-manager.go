//go:build ignore

package main

import (
	"github.com/spf13/pflag"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func flags() []*pflag.FlagSet {
	cmd := app.NewControllerManagerCommand()
	return []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()}
}

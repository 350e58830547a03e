//go:build ignore

package main

import (
	"github.com/spf13/pflag"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func flags() []*pflag.FlagSet {
	cmd := app.NewAPIServerCommand()
	return []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()}
}

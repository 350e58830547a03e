//go:build ignore

package main

import (
	"log"

	"github.com/spf13/pflag"
	_ "k8s.io/kubernetes/cmd/kubelet/app" // registers what the kubelet's own libraries add
	"k8s.io/kubernetes/cmd/kubelet/app/options"
)

// flags are put together as app.NewKubeletCommand does, whose own set has none: it parses them by itself.
func flags() []*pflag.FlagSet {
	set := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	options.NewKubeletFlags().AddFlags(set)
	defaults, err := options.NewKubeletConfiguration()
	if err != nil {
		log.Fatal(err)
	}
	options.AddKubeletConfigFlags(set, defaults)
	options.AddGlobalFlags(set)
	return []*pflag.FlagSet{set}
}

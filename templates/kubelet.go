package templates

import (
	"bytes"
	_ "embed"
	"strings"
)

//go:embed kubelet/20-ccmadm.conf
var kubeletDropIn []byte

//go:embed kubelet/ccmadm-kubelet.service
var kubeletUnit string

// KubeletDropIn is the systemd drop-in through which the kubelet reads ccmadm's flags.
func KubeletDropIn() []byte { return bytes.Clone(kubeletDropIn) }

// KubeletUnit is the systemd unit that runs the program's kubelet phase at each boot, before the kubelet starts.
func KubeletUnit(program string) []byte {
	return []byte(strings.ReplaceAll(kubeletUnit, "${program}", program))
}

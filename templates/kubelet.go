package templates

import (
	"bytes"
	_ "embed"
	"fmt"
	"text/template"
)

//go:embed kubelet/20-ccmadm.conf
var kubeletDropIn []byte

//go:embed kubelet/ccmadm-kubelet.service.tmpl
var kubeletUnit string

// KubeletDropIn is the systemd drop-in through which the kubelet reads ccmadm's flags.
func KubeletDropIn() []byte { return bytes.Clone(kubeletDropIn) }

// KubeletUnit is the systemd unit that runs the program's kubelet phase at each boot, before the kubelet starts.
func KubeletUnit(program string) ([]byte, error) {
	t, err := template.New("ccmadm-kubelet.service").Parse(kubeletUnit)
	if err != nil {
		return nil, fmt.Errorf("parse the kubelet unit: %w", err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, program); err != nil {
		return nil, fmt.Errorf("render the kubelet unit: %w", err)
	}
	return out.Bytes(), nil
}

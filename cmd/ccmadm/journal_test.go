package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/phases/journal"
)

// What a kubelet says of its flags, and the last words of a program on a Node, are in the journal as they were said.
func TestPrintSteps_HostileText(t *testing.T) {
	const hostile = "\x1b]0;owned\aall is well\x1b[2J"
	var out bytes.Buffer
	printSteps(&out, &journal.Run{ID: 7, Command: "adopt", Steps: []journal.Step{{
		Name: "kubelet", Node: "w1", Before: "--node-ip=" + hostile, Change: "one\n" + hostile + "\n", Error: hostile,
	}}})
	if strings.ContainsAny(out.String(), "\x1b\a") || !strings.Contains(out.String(), "  before: --node-ip=all is well\n") ||
		!strings.Contains(out.String(), "  change: \n    one\n    all is well\n") {
		t.Errorf("got %q", out.String())
	}
}

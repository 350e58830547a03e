// Package minors knows the minor versions of Kubernetes: which ones ccmadm supports, and what upstream's programs accept
// in each of them.
//
// Start at [Supported] and [Load]. The file window.txt is the one declaration of the versions; make, the lab, preflight,
// lint, upgrade plans and the documentation read it. The folder upstream has a table for each, which `bin/lab minors`
// writes from the programs of that minor themselves.
//
// Reads: its embedded files. Writes: nothing.
package minors

import (
	_ "embed" // window.txt
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

//go:embed window.txt
var window string

// supported is how many minors clusters are made of: as many as upstream supports at a time.
const supported = 3

// Known lists the minors that ccmadm knows as "1.36", oldest first. The first may be versions to upgrade from only.
func Known() []string {
	var list []string
	for line := range strings.Lines(window) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			list = append(list, line)
		}
	}
	return list
}

// Supported lists the minors that clusters are made of, oldest first.
func Supported() []string {
	known := Known()
	return known[max(0, len(known)-supported):]
}

// Oldest is the first of [Supported].
func Oldest() string { return Supported()[0] }

// Newest is the last of [Supported]: the minor whose libraries ccmadm is built with.
func Newest() string {
	list := Supported()
	return list[len(list)-1]
}

// Window is [Supported] for people: "1.35 to 1.37".
func Window() string { return Oldest() + " to " + Newest() }

// Of is the minor of a version: "1.36" of "v1.36.3", "1.36.3" or "1.36".
func Of(v string) (string, error) {
	parsed, err := version.ParseGeneric(v)
	if err != nil {
		return "", fmt.Errorf("read version %q: %w", v, err)
	}
	return fmt.Sprintf("%d.%d", parsed.Major(), parsed.Minor()), nil
}

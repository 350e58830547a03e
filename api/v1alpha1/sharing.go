package v1alpha1

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// maxShareNamespaces is how many names ShareNamespacesAnnotation may have, and maxShareBytes the length of that many of the longest.
// Tenants write it, and the cloud-controller-manager reads it in every pass.
const (
	maxShareNamespaces = 64
	maxShareBytes      = maxShareNamespaces * (validation.DNS1123LabelMaxLength + 1)
)

// ParseShareNamespaces reads the value of ShareNamespacesAnnotation: names of namespaces with commas, spaces around them
// ignored. The empty text has none. A list with anything else in it is an error as a whole, so that it gives no consent that was
// not meant. The sign "*" is an error too: it would give the address to every tenant, those of later namespaces included.
func ParseShareNamespaces(text string) ([]string, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if len(text) > maxShareBytes {
		return nil, fmt.Errorf("the list has %d bytes, and at most %d are read", len(text), maxShareBytes)
	}
	if n := strings.Count(text, ",") + 1; n > maxShareNamespaces {
		return nil, fmt.Errorf("the list has %d names, and at most %d are read", n, maxShareNamespaces)
	}
	var names []string
	for part := range strings.SplitSeq(text, ",") {
		name := strings.TrimSpace(part)
		switch problems := validation.IsDNS1123Label(name); {
		case name == "*":
			return nil, fmt.Errorf("%q would let every namespace use the address: list the namespaces by name", name)
		case name == "":
			return nil, fmt.Errorf("%q has an empty name between two commas or at an end", text)
		case len(problems) > 0:
			return nil, fmt.Errorf("%q is no name of a namespace: %s", name, problems[0])
		case !slices.Contains(names, name):
			names = append(names, name)
		}
	}
	return names, nil
}

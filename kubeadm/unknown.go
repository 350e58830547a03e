package kubeadm

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/minors"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests/edit"
	"github.com/ccmadm/ccmadm/templates"
)

// ownKinds are ccmadm's, each with its Go type; nil where programs write it alone.
func ownKinds() map[string]any {
	return map[string]any{
		config.ConfigKind:        config.CloudConfiguration{},
		config.OnPremKind:        config.OnPremConfiguration{},
		config.InventoryKind:     config.Inventory{},
		v1alpha1.AddressPoolKind: v1alpha1.AddressPool{},
		v1alpha1.BGPPeerKind:     v1alpha1.BGPPeer{},
		templates.Kind:           templates.Profile{},
		v1alpha1.NodeAgentKind:   nil,
		"NodeAgentLease":         nil,
		"NodeAnnouncements":      nil,
		"NodeRoutes":             nil,
		state.RecordKind:         nil,
		state.LocalStateKind:     nil,
	}
}

// LintNames finds kinds and fields in a file's documents, kubeadm's and ours, that nobody reads: they are mistyped, or
// of another version. Whatever they say has no effect, and most of it is missed only later. What is no YAML has none.
func LintNames(name string, data []byte) []finding.Finding {
	docs, err := edit.Split(name, strings.TrimPrefix(string(data), byteOrderMark))
	if err != nil {
		return nil
	}
	var list []finding.Finding
	for _, d := range docs {
		if d.Parse() != nil || d.Root == nil {
			continue
		}
		kind := edit.Scalar(edit.Lookup(d.Root, "kind"))
		for _, p := range unknownNames(d, kind) {
			list = append(list, finding.Finding{
				Kind: unknownName.Kind(), File: name, Line: d.Line + p.Line - 1, Column: 1,
				Object: kind, Message: p.Err.Error(),
			})
		}
	}
	return list
}

// unknownName is the rule.
const unknownName finding.ID = "A19"

func unknownNames(d *edit.Document, kind string) []config.Problem {
	apiVersion, text := edit.Scalar(edit.Lookup(d.Root, "apiVersion")), []byte(d.Text)
	if apiVersion == v1alpha1.APIVersion {
		return judgeKind(d, kind, ownKinds(), func(like any) []config.Problem {
			if like == nil {
				return nil
			}
			return config.UnknownFields(text, like)
		})
	}
	kinds, _ := minors.Load().KubeadmAPI(apiVersion)
	if kinds == nil { // not kubeadm's, or which the readers of such documents say
		return nil
	}
	return judgeKind(d, kind, kinds, func(known minors.Fields) []config.Problem { return config.UnknownNames(text, known) })
}

// judgeKind finds an unknown kind, or the fields that a known one has not.
func judgeKind[T any](d *edit.Document, kind string, kinds map[string]T, fields func(T) []config.Problem) []config.Problem {
	at := edit.Lookup(d.Root, "kind")
	like, known := kinds[strings.TrimSuffix(kind, "List")]
	switch {
	case at == nil: // which the readers of such documents say
		return nil
	case !known:
		meant := finding.Meant(kind, slices.Sorted(maps.Keys(kinds)))
		return []config.Problem{{Line: at.Line, Err: fmt.Errorf("unknown kind %q%s", kind, meant)}}
	case strings.HasSuffix(kind, "List"):
		return nil
	}
	return fields(like)
}

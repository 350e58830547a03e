package kubeadm

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	kubeadmv1beta3 "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/v1beta3"
	kubeadmv1beta4 "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/v1beta4"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests/edit"
	"github.com/ccmadm/ccmadm/templates"
)

// knownKinds are kubeadm's and ours, by API version and kind, each with its Go type; nil where programs write it alone.
func knownKinds() map[string]map[string]any {
	return map[string]map[string]any{
		v1beta3: {
			"InitConfiguration":    kubeadmv1beta3.InitConfiguration{},
			"JoinConfiguration":    kubeadmv1beta3.JoinConfiguration{},
			"ClusterConfiguration": kubeadmv1beta3.ClusterConfiguration{},
		},
		v1beta4: {
			"InitConfiguration":    kubeadmv1beta4.InitConfiguration{},
			"JoinConfiguration":    kubeadmv1beta4.JoinConfiguration{},
			"ClusterConfiguration": kubeadmv1beta4.ClusterConfiguration{},
			"ResetConfiguration":   kubeadmv1beta4.ResetConfiguration{},
			"UpgradeConfiguration": kubeadmv1beta4.UpgradeConfiguration{},
		},
		v1alpha1.APIVersion: {
			config.ConfigKind:        config.CloudConfiguration{},
			config.OnPremKind:        config.OnPremConfiguration{},
			config.InventoryKind:     config.Inventory{},
			v1alpha1.AddressPoolKind: v1alpha1.AddressPool{},
			v1alpha1.BGPPeerKind:     v1alpha1.BGPPeer{},
			templates.Kind:           templates.Profile{},
			v1alpha1.NodeAgentKind:   nil,
			"NodeRoutes":             nil,
			state.RecordKind:         nil,
			state.LocalStateKind:     nil,
		},
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
	kinds, ours := knownKinds()[edit.Scalar(edit.Lookup(d.Root, "apiVersion"))]
	if !ours {
		return nil
	}
	at := edit.Lookup(d.Root, "kind")
	like, known := kinds[strings.TrimSuffix(kind, "List")]
	switch {
	case at == nil: // which the readers of such documents say
		return nil
	case !known:
		meant := finding.Meant(kind, slices.Sorted(maps.Keys(kinds)))
		return []config.Problem{{Line: at.Line, Err: fmt.Errorf("unknown kind %q%s", kind, meant)}}
	case like == nil || strings.HasSuffix(kind, "List"):
		return nil
	}
	return config.UnknownFields([]byte(d.Text), like)
}

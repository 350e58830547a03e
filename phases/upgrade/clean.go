package upgrade

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/manifests/edit"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// cleanConfiguration takes out of the live configuration what would end a component of the target.
func cleanConfiguration() workflow.Phase {
	return workflow.Phase{
		Name:    "configuration",
		Journal: workflow.JournalItself,
		Shared:  true,
		Short:   "Take out of kubeadm's live configuration what components of the version refuse",
		Long: `Reads and writes the ConfigMaps kubeadm-config, kubelet-config and kube-proxy in kube-system: arguments and
feature gates that the plan names are removed. The journal keeps their former values.`,
		Run: func(ctx context.Context, r *workflow.Run) error {
			for _, c := range []struct {
				name, key string
				clean     func(*workflow.Run, string, string) (string, []string, error)
			}{
				{workflow.KubeadmConfigName, workflow.ClusterConfigKey, cleanClusterConfiguration},
				{kubeletConfigName, kubeletConfigKey, cleanGates(planner.Kubelet)},
				{kubeProxyName, kubeProxyKey, cleanGates(planner.Proxy)},
			} {
				if err := cleanConfigMap(ctx, r, c.name, c.key, c.clean); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func cleanConfigMap(
	ctx context.Context, r *workflow.Run, name, key string, clean func(*workflow.Run, string, string) (string, []string, error),
) error {
	object := "ConfigMap/" + v1alpha1.Namespace + "/" + name
	var removed []string
	edited, err := workflow.EditConfigMap(ctx, r.Env, name, key, func(object, text string) (after string, changes []string, err error) {
		after, removed, err = clean(r, object, text)
		for _, what := range removed {
			changes = append(changes, what+" removed")
		}
		return after, changes, err
	})
	if apierrors.IsNotFound(err) && name != workflow.KubeadmConfigName {
		return nil
	}
	if err != nil || edited == nil {
		return err
	}
	if r.DryRun {
		fmt.Fprintf(r.Out, "[dryrun] would remove from %s: %s\n", object, strings.Join(removed, ", "))
		return nil
	}
	step := journal.Step{
		Name: r.Phase, What: cleanConfiguration().Short, Change: object + ": removed " + strings.Join(removed, ", "),
		Before: string(kubeadm.MaskSecrets([]byte(edited.Before))),
		Undo:   "kubectl -n " + v1alpha1.Namespace + " edit configmap " + name + ": the text of before is in the journal",
	}
	return workflow.NodeStep(ctx, r, step, edited.Write)
}

// cleanClusterConfiguration returns the text without what components of the target refuse, and what that was.
func cleanClusterConfiguration(r *workflow.Run, object, text string) (string, []string, error) {
	file, err := kubeadm.Parse(object, []byte(text))
	if err != nil {
		return "", nil, err
	}
	u := upgradeOf(r)
	var removed []string
	err = file.EditTold(func(t kubeadm.Told) (string, bool) {
		kept, gone := u.withoutRefused(planner.Use{Component: componentOf(t.Component), Name: t.Name, Value: t.Value})
		for _, what := range gone {
			removed = append(removed, t.Path+" "+what)
		}
		return kept, kept != "" || len(gone) == 0
	})
	if err != nil {
		return "", nil, err
	}
	var gates []string
	for _, gate := range file.FeatureGates() {
		if planner.Refuses(u.target, planner.Use{Component: planner.Kubeadm, Name: planner.GatePrefix + gate}) {
			gates = append(gates, gate)
			removed = append(removed, "featureGates."+gate)
		}
	}
	if err := file.DropFeatureGates(gates...); err != nil {
		return "", nil, err
	}
	return string(file.Bytes()), removed, nil
}

// withoutRefused is the value of an argument without what the target refuses, and what that was. Of --feature-gates and --controllers
// some may stay, as they are written; gates of other programs always do.
func (u *Upgrade) withoutRefused(use planner.Use) (kept string, gone []string) {
	parts := []string{use.Value}
	if use.Name == planner.Gates || use.Name == planner.Controllers {
		parts = strings.Split(use.Value, ",")
	}
	var left []string
	for _, part := range parts {
		one := use
		one.Value = part
		refused := slices.DeleteFunc(usesOf(one), func(of planner.Use) bool { return !planner.Refuses(u.target, of) })
		if len(refused) == 0 {
			left = append(left, part)
		}
		for _, of := range refused {
			gone = append(gone, strings.TrimPrefix(of.Name, planner.GatePrefix)+"="+of.Value)
		}
	}
	return strings.Join(left, ","), gone
}

func componentOf(field string) planner.Component {
	return map[string]planner.Component{
		"apiServer": planner.APIServer, "controllerManager": planner.ControllerManager, "scheduler": planner.Scheduler,
		"etcd": planner.Etcd,
	}[field]
}

// cleanGates takes feature gates away that a component of the target does not know, or has locked to another value.
func cleanGates(c planner.Component) func(*workflow.Run, string, string) (string, []string, error) {
	return func(r *workflow.Run, object, text string) (string, []string, error) {
		docs, err := edit.Split(object, text)
		if err != nil {
			return "", nil, err
		}
		var removed []string
		var all strings.Builder
		for _, doc := range docs {
			if err := doc.Parse(); err != nil {
				return "", nil, err
			}
			names, err := dropGates(upgradeOf(r), c, doc)
			if err != nil {
				return "", nil, fmt.Errorf("remove feature gates from %s: %w", object, err)
			}
			removed = append(removed, names...)
			all.WriteString(doc.Separator + doc.Text)
		}
		return all.String(), removed, nil
	}
}

func dropGates(u *Upgrade, c planner.Component, doc *edit.Document) ([]string, error) {
	gates := edit.Resolve(edit.Lookup(doc.Root, "featureGates"))
	if gates == nil || gates.Kind != yaml.MappingNode {
		return nil, nil
	}
	var names []string
	for i := 0; i+1 < len(gates.Content); i += 2 {
		name := edit.Scalar(gates.Content[i])
		use := planner.Use{Component: c, Name: planner.GatePrefix + name, Value: edit.Scalar(gates.Content[i+1])}
		if planner.Refuses(u.target, use) {
			names = append(names, name)
		}
	}
	for _, name := range slices.Backward(names) {
		at := edit.IndexOf(edit.Lookup(doc.Root, "featureGates"), name) / 2
		if err := doc.Remove(at, "featureGates"); err != nil {
			return nil, err
		}
	}
	for i, name := range names {
		names[i] = "featureGates." + name
	}
	return names, nil
}

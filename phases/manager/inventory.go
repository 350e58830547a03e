package manager

import (
	"context"
	"fmt"
	"maps"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/kyaml/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// maxInventory leaves room in a ConfigMap, which holds 1 MiB, for its metadata.
const maxInventory = 900 << 10

// inventoryFile is the file with the list of machines that this run brings to the cluster. A second run that names none
// brings none: the cluster has one, which is kept there.
func inventoryFile(r *workflow.Run, s *settings.Settings) string {
	if s.Recorded != nil && (!r.Single || r.Existing) {
		return r.Said.Inventory
	}
	return s.Inventory
}

// addInventory makes the provider's configuration file point at the ConfigMap with the list of machines. Without a file
// of the user's, the smallest one that works is written. It returns the files with the list among them, for a check of
// both.
func addInventory(files map[string][]byte, profile *templates.Profile, path string) (map[string][]byte, error) {
	if profile.Config == nil || profile.Config.Inventory == nil {
		return nil, finding.Usagef("inventory: provider %s serves no list of machines", profile.Name)
	}
	config, list := profile.Config.File, profile.Config.Inventory
	if _, given := files[list.Key]; given {
		return nil, finding.Usagef("inventory: credentials has a key %s already", list.Key).
			WithHint("leave out one of the two")
	}
	document, err := readInventory(profile, path)
	if err != nil {
		return nil, err
	}
	data, given := files[config]
	if !given {
		data = []byte(profile.Config.Example)
	}
	if files[config], err = setOnce(data, list.Setting, list.ConfigMap); err != nil {
		return nil, finding.Usagef("inventory: point %s at it: %w", config, err).
			WithHint("leave out the inventory here, or there")
	}
	all := maps.Clone(files)
	all[list.Key] = document
	return all, nil
}

func readInventory(profile *templates.Profile, path string) ([]byte, error) {
	document, err := settings.ReadFile("inventory", path)
	if err != nil {
		return nil, err
	}
	if len(document) > maxInventory {
		return nil, finding.Usagef("read inventory: %s has %d bytes, and a ConfigMap holds no more than %d of it",
			path, len(document), maxInventory).
			WithHint("serve it from an https address, and name that in %s", profile.Config.File)
	}
	return document, nil
}

// applyInventory brings the list of machines to the cluster, if this run was given one.
func applyInventory(ctx context.Context, r *workflow.Run, s *settings.Settings) error {
	path := inventoryFile(r, s)
	if path == "" {
		return nil
	}
	if err := checkInventory(ctx, r, s); err != nil {
		return err
	}
	document, err := readInventory(s.Profile, path)
	if err != nil {
		return err
	}
	objects, err := manifests.Inventory(s.Profile.Config.Inventory, document)
	if err != nil {
		return err
	}
	return workflow.ApplySet(ctx, r.Env, apply.Inventory, workflow.BootstrapConf(r.Machine), objects)
}

// checkInventory refuses a list that is not newer than the cluster's, and not the same: the file of the first day would
// undo what has been changed since. In a cluster that is being made there is nothing to undo.
func checkInventory(ctx context.Context, r *workflow.Run, s *settings.Settings) error {
	path := inventoryFile(r, s)
	if done, err := workflow.KubeadmFinished(r.Host); err != nil || !done && !r.Existing || path == "" {
		return err
	}
	document, err := readInventory(s.Profile, path)
	if err != nil {
		return err
	}
	client, err := workflow.Connect(r.Env, workflow.BootstrapConf(r.Machine))
	if err != nil {
		return err
	}
	list := s.Profile.Config.Inventory
	name := "ConfigMap/" + metav1.NamespaceSystem + "/" + list.ConfigMap
	object, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, list.ConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("compare %s with %s: %w", path, name, err)
	}
	known, there := object.Data[list.Key]
	if said, old := serialOf(document), serialOf([]byte(known)); there && known != string(document) && said <= old {
		return finding.Refusedf("replace %s: %s differs, and its serial is %d, there it is %d", name, path, said, old).
			WithHint("raise metadata.serial, or leave the inventory out: what is in the cluster holds; "+
				"`ccmadm machines diff -f %s` shows what would change", path)
	}
	return nil
}

// serialOf is that of a list of machines, 0 where it has none.
func serialOf(document []byte) int64 {
	var list struct {
		Metadata struct {
			Serial int64 `json:"serial"`
		} `json:"metadata"`
	}
	if err := sigsyaml.Unmarshal(document, &list); err != nil {
		return 0 // what is no list is never newer, and is replaced by any that has a serial
	}
	return list.Metadata.Serial
}

// setOnce sets a key of a YAML document, a dotted path, and keeps the rest, comments too. It refuses to change a value
// that is there.
func setOnce(data []byte, key, value string) ([]byte, error) {
	document, err := yaml.Parse(string(data))
	if err != nil {
		return nil, fmt.Errorf("not YAML: %w", err)
	}
	keys := strings.Split(key, ".")
	parent, err := document.Pipe(yaml.LookupCreate(yaml.MappingNode, keys[:len(keys)-1]...))
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", key, err)
	}
	last := keys[len(keys)-1]
	if f := parent.Field(last); f != nil && f.Value.YNode().Value != value {
		return nil, fmt.Errorf("%s is %q there", key, f.Value.YNode().Value)
	}
	if err := parent.PipeE(yaml.SetField(last, yaml.NewStringRNode(value))); err != nil {
		return nil, fmt.Errorf("set %s: %w", key, err)
	}
	text, err := document.String()
	return []byte(text), err
}

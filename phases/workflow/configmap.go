package workflow

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
)

// editedConfigMap is one of kubeadm's whose text below a key is another now, not yet written.
type editedConfigMap struct {
	Before string // the text as it was
	Write  func(context.Context) error
}

// EditConfigMap reads a ConfigMap in kube-system, has the text below the key edited, and says what changes; nil:
// nothing does. The edit returns the new text, and the changes in words.
func EditConfigMap(
	ctx context.Context, env *Env, name, key string, edit func(object, text string) (string, []string, error),
) (*editedConfigMap, error) {
	object := "ConfigMap/" + v1alpha1.Namespace + "/" + name
	client, err := Connect(env, machine.AdminConf)
	if err != nil {
		return nil, err
	}
	maps := client.CoreV1().ConfigMaps(v1alpha1.Namespace)
	live, err := maps.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", object, err)
	}
	before := live.Data[key]
	after, changes, err := edit(object, before)
	if err != nil {
		return nil, err
	}
	if len(changes) == 0 {
		env.SayUnchanged(object)
		return nil, nil
	}
	env.NoteChange(true)
	for _, c := range changes {
		env.Sayf("%s: %s", object, c)
	}
	return &editedConfigMap{Before: before, Write: func(ctx context.Context) error {
		live.Data[key] = after
		if _, err := maps.Update(ctx, live, metav1.UpdateOptions{FieldManager: v1alpha1.FieldManager}); err != nil {
			return fmt.Errorf("write %s: %w", object, err)
		}
		return nil
	}}, nil
}

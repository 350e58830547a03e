package inventory

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Where the last good copy is.
const (
	copyKey = "inventory.yaml.gz" // 5,000 machines as text would not fit into an object
)

// Copy keeps the last good inventory in a ConfigMap, so that the next process has
// one even when the source has none.
type Copy struct {
	Client          kubernetes.Interface
	Namespace, Name string
}

// Load returns the document, or nil if there is none.
func (c Copy) Load(ctx context.Context) ([]byte, error) {
	object, err := c.Client.CoreV1().ConfigMaps(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("load the last good inventory: %w", err)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(object.BinaryData[copyKey]))
	if err != nil {
		return nil, fmt.Errorf("load the last good inventory from ConfigMap/%s/%s: %w", c.Namespace, c.Name, err)
	}
	return io.ReadAll(io.LimitReader(unpacked, maxBytes))
}

// Save keeps a document, and says how up to date it is.
func (c Copy) Save(ctx context.Context, document []byte, state string) error {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(document); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: c.Name, Namespace: c.Namespace,
			Labels:      map[string]string{"app.kubernetes.io/managed-by": "ccmadm"},
			Annotations: map[string]string{v1alpha1.MachinesStateAnnotation: state},
		},
		BinaryData: map[string][]byte{copyKey: packed.Bytes()},
	}
	client := c.Client.CoreV1().ConfigMaps(c.Namespace)
	_, err := client.Update(ctx, object, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Create(ctx, object, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("save ConfigMap/%s/%s: %w", c.Namespace, c.Name, err)
	}
	return nil
}

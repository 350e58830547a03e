package inventory

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// Source reads an inventory again and again, until ctx is done. It offers each
// reading, unchanged ones as well: from them a store knows that it is up to date.
type Source interface {
	Run(ctx context.Context, offer func(document []byte, err error))
}

var (
	_ Source = File{}
	_ Source = ConfigMap{}
	_ Source = (*HTTPS)(nil)
)

// ConfigMap is a key of a ConfigMap. It is watched, and read at every interval.
type ConfigMap struct {
	Client               kubernetes.Interface
	Namespace, Name, Key string
	Interval             time.Duration
}

// Run reads the ConfigMap when it changes, and at every interval.
func (c ConfigMap) Run(ctx context.Context, offer func([]byte, error)) {
	every(ctx, time.Second, func() {
		version, document, err := c.read(ctx)
		if ctx.Err() != nil {
			return
		}
		offer(document, err)
		c.waitForChange(ctx, version)
	})
}

func (c ConfigMap) read(ctx context.Context) (version string, document []byte, err error) {
	object, err := c.Client.CoreV1().ConfigMaps(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
	if err != nil {
		return "", nil, err
	}
	if text, ok := object.Data[c.Key]; ok {
		return object.ResourceVersion, []byte(text), nil
	}
	if data, ok := object.BinaryData[c.Key]; ok {
		return object.ResourceVersion, data, nil
	}
	return object.ResourceVersion, nil, fmt.Errorf("ConfigMap/%s/%s has no key %q", c.Namespace, c.Name, c.Key)
}

// waitForChange returns at the first change, and after the interval. Why a watch
// ended does not matter: the next reading tells.
func (c ConfigMap) waitForChange(ctx context.Context, version string) {
	ctx, cancel := context.WithTimeout(ctx, c.Interval)
	defer cancel()
	changes, err := c.Client.CoreV1().ConfigMaps(c.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector(metav1.ObjectNameField, c.Name).String(),
		ResourceVersion: version,
	})
	if err != nil {
		<-ctx.Done()
		return
	}
	defer changes.Stop()
	for change := range changes.ResultChan() {
		object, ok := change.Object.(*corev1.ConfigMap)
		if change.Type == watch.Bookmark || ok && object.ResourceVersion == version {
			continue
		}
		return
	}
}

// every calls f at once, and again after each interval, until ctx is done.
func every(ctx context.Context, interval time.Duration, f func()) {
	for {
		f()
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
	}
}

package main

import (
	"context"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// applyFile creates the objects of a file, their status included, in which NOW stands for the time.
func applyFile(ctx context.Context, config *rest.Config, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text := strings.ReplaceAll(string(data), "NOW", `"`+time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")+`"`)
	c, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	for doc := range strings.SplitSeq(text, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &object.Object); err != nil {
			return err
		}
		if err := create(ctx, c, object); err != nil {
			return err
		}
	}
	return nil
}

// create waits for a kind that has just been defined.
func create(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	status := object.Object["status"]
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := c.Create(ctx, object)
		return !meta.IsNoMatchError(err), client.IgnoreAlreadyExists(ignoreNoMatch(err))
	})
	if err != nil || status == nil {
		return err
	}
	object.Object["status"] = status
	return c.Status().Update(ctx, object)
}

func ignoreNoMatch(err error) error {
	if meta.IsNoMatchError(err) {
		return nil
	}
	return err
}

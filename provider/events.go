package provider

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

// newBroadcaster makes one that limits the Events of each object by their reasons: one that comes once, such as DeletionAnnounced, is not
// dropped because others repeat. client-go lets 25 pass, and then one in five minutes.
func newBroadcaster(ctx context.Context) record.EventBroadcaster {
	return record.NewBroadcaster(record.WithContext(ctx), record.WithCorrelatorOptions(limits()))
}

func limits() record.CorrelatorOptions {
	return record.CorrelatorOptions{SpamKeyFunc: func(e *corev1.Event) string {
		about := e.InvolvedObject
		return strings.Join([]string{
			e.Source.Component, about.APIVersion, about.Kind, about.Namespace, about.Name, string(about.UID), e.Reason,
		}, " ")
	}}
}

package provider

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

// Warnings that repeat all day do not hide the announcement of a deletion.
func TestEvents_LimitedByReason(t *testing.T) {
	dropped := func(options record.CorrelatorOptions) (warnings int, deletion bool) {
		correlator := record.NewEventCorrelatorWithOptions(options)
		drops := func(reason, message string) bool {
			result, err := correlator.EventCorrelate(&corev1.Event{
				Source: corev1.EventSource{Component: Name}, InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "w1", UID: "w1"},
				Type: corev1.EventTypeWarning, Reason: reason, Message: message,
			})
			if err != nil {
				t.Fatal(err)
			}
			return result.Skip
		}
		for n := range 100 {
			if drops("TaintWithheld", fmt.Sprintf("taint %d", n%2)) {
				warnings++
			}
		}
		return warnings, drops("DeletionAnnounced", "the Node will be deleted")
	}
	if warnings, deletion := dropped(limits()); warnings < 50 || deletion {
		t.Errorf("%d of 100 warnings are dropped, the deletion is: %t", warnings, deletion)
	}
	if _, deletion := dropped(record.CorrelatorOptions{}); !deletion {
		t.Error("client-go does not need this any more")
	}
}

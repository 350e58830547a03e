package workflow

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// RecordPatience is how long the API server of a control plane may take to answer: it may be restarting.
const RecordPatience = 30 * time.Second

// AskRecord asks until there is an answer. A server that is overloaded, or that does not know us yet, has given none.
func AskRecord(ctx context.Context, client kubernetes.Interface) (rec *state.Record, err error) {
	waitErr := wait.PollUntilContextTimeout(ctx, time.Second, RecordPatience, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		got, asked := ReadRecord(ctx, client)
		if end, _ := ctx.Deadline(); err != nil && asked != nil && !time.Now().Before(end) {
			return false, nil // the time is up; why nobody answered before says more
		}
		rec, err = got, asked
		return err == nil || apierrors.IsNotFound(err), nil
	})
	if err == nil && waitErr != nil { // the caller's end, before the first question
		err = waitErr
	}
	return rec, err
}

// ReadRecord reads it once.
func ReadRecord(ctx context.Context, client kubernetes.Interface) (*state.Record, error) {
	name := "ConfigMap/kube-system/" + v1alpha1.RecordName
	cm, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, v1alpha1.RecordName, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return state.DecodeRecord(name, []byte(cm.Data[v1alpha1.RecordKey]))
}

package provider

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// repeatAfter is when a trouble that does not change is told again.
const repeatAfter = 10 * time.Minute

// voice writes Events on Nodes: the first failure, a reason that changed, and one
// that is still there after a while. Upstream writes none, and asks again with
// every change of a Node.
type voice struct {
	recorder record.EventRecorder
	now      func() time.Time

	mu   sync.Mutex
	said map[types.UID]utterance
}

type utterance struct {
	words string
	at    time.Time
}

func newVoice(recorder record.EventRecorder, now func() time.Time) *voice {
	return &voice{recorder: recorder, now: now, said: map[types.UID]utterance{}}
}

// warn writes a Warning on the Node, unless that was said just now.
func (v *voice) warn(node *corev1.Node, reason, message string) {
	if v.fresh(node.UID, reason+" "+message) {
		v.recorder.Event(node, corev1.EventTypeWarning, reason, message)
	}
}

// fresh says whether the words are worth an Event, and remembers them.
func (v *voice) fresh(about types.UID, words string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.now()
	if last, ok := v.said[about]; ok && last.words == words && now.Sub(last.at) < repeatAfter {
		return false
	}
	for uid, old := range v.said { // of Nodes that are gone or well
		if now.Sub(old.at) > 2*repeatAfter {
			delete(v.said, uid)
		}
	}
	v.said[about] = utterance{words, now}
	return true
}

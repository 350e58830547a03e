package nodes

import (
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/ccmadm/ccmadm/api/finding"
)

// repeatAfter is when an Event that does not change is written again.
const repeatAfter = 10 * time.Minute

// events writes Events on Nodes: the first failure, a reason that changed, and one
// that is still there after a while. Upstream writes none, and asks again with
// every change of a Node.
type events struct {
	recorder record.EventRecorder
	now      func() time.Time

	mu   sync.Mutex
	last map[types.UID]event // by what it is about
}

// event is one that was written.
type event struct {
	text string // reason and message
	at   time.Time
}

func newEvents(recorder record.EventRecorder, now func() time.Time) *events {
	return &events{recorder: recorder, now: now, last: map[types.UID]event{}}
}

// warn writes a Warning on the Node, unless the same was written just now. What a kubelet says may be in the message.
func (e *events) warn(node *corev1.Node, reason, message string) {
	message = shorten(finding.Clean(message))
	if e.due(node.UID, reason+" "+message) {
		e.recorder.Event(node, corev1.EventTypeWarning, reason, message)
	}
}

// maxMessage is far beyond any message of ours: a provider ID that a kubelet wrote may be long.
const maxMessage = 1000

func shorten(message string) string {
	if len(message) > maxMessage {
		return strings.ToValidUTF8(message[:maxMessage], "") + "..."
	}
	return message
}

// due reports whether an Event is to be written, and remembers it.
func (e *events) due(about types.UID, text string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	if last, ok := e.last[about]; ok && last.text == text && now.Sub(last.at) < repeatAfter {
		return false
	}
	for uid, old := range e.last { // of Nodes that are gone or well
		if now.Sub(old.at) > 2*repeatAfter {
			delete(e.last, uid)
		}
	}
	e.last[about] = event{text, now}
	return true
}

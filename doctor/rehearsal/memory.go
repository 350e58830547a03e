package rehearsal

import (
	"io"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// memory keeps the Leases that the program makes, by namespace and name, and drops its Events.
type memory struct {
	mu     sync.Mutex
	leases map[string]runtime.Object
}

func (m *memory) serve(w http.ResponseWriter, r *http.Request, q request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Method == http.MethodPost || r.Method == http.MethodPut {
		m.keep(w, r, q)
		return
	}
	object, there := m.leases[q.namespace+"/"+q.name]
	switch {
	case !there || r.Method != http.MethodGet && r.Method != http.MethodDelete:
		notFound(w, q)
	case r.Method == http.MethodDelete:
		delete(m.leases, q.namespace+"/"+q.name)
		reply(w, http.StatusOK, &metav1.Status{TypeMeta: statusType(), Status: metav1.StatusSuccess})
	default:
		reply(w, http.StatusOK, object)
	}
}

func badRequest(w http.ResponseWriter, err error) {
	const code = http.StatusBadRequest
	reply(w, code, status(code, metav1.StatusReasonBadRequest, err.Error()))
}

// keep answers with what it was given.
func (m *memory) keep(w http.ResponseWriter, r *http.Request, q request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, largest))
	if err != nil {
		badRequest(w, err)
		return
	}
	object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		badRequest(w, err)
		return
	}
	object.GetObjectKind().SetGroupVersionKind(*kind)
	if named, err := meta.Accessor(object); err == nil && q.resource == "leases" {
		if m.leases == nil {
			m.leases = map[string]runtime.Object{}
		}
		m.leases[q.namespace+"/"+named.GetName()] = object
	}
	code := http.StatusOK
	if r.Method == http.MethodPost {
		code = http.StatusCreated
	}
	reply(w, code, object)
}

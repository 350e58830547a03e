package rehearsal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

// largest is the size of a request that is read; it is the API server's own limit.
const largest = 3 << 20

// answer answers a write as the API server would, and sends it nowhere. Nodes are all that may be written.
func (p *proxy) respond(w http.ResponseWriter, r *http.Request, q request) {
	p.begin(1)
	defer p.begin(-1)
	verb := map[string]string{"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[r.Method]
	before := p.get(q.name)
	switch {
	case verb == "" || !q.isNodes() || q.name == "" || verb == "create":
		p.deny(w, http.StatusForbidden, q.what(verb), "a rehearsal forwards no write")
	case before == nil:
		notFound(w, q)
	case verb == "delete" && q.subresource == "":
		p.remove(q.name)
		reply(w, http.StatusOK, &metav1.Status{TypeMeta: statusType(), Status: metav1.StatusSuccess})
	default:
		after, err := change(r, before, q.subresource)
		if err != nil {
			p.deny(w, http.StatusUnprocessableEntity, q.what(verb), err.Error())
			return
		}
		p.write(before, after)
		reply(w, http.StatusOK, after)
	}
}

// change is the Node that a PUT or PATCH makes of another. As with the API server, what is written to a Node leaves its
// status alone, and what is written to its status the rest.
func change(r *http.Request, before *corev1.Node, subresource string) (*corev1.Node, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, largest))
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	after := &corev1.Node{}
	switch r.Method {
	case http.MethodPut:
		_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, after)
	case http.MethodPatch:
		err = patch(r.Header.Get("Content-Type"), body, before, after)
	default:
		err = errors.New("no such verb")
	}
	if err != nil {
		return nil, fmt.Errorf("decode the change of a node: %w", err)
	}
	result := before.DeepCopy()
	switch subresource {
	case "status":
		result.Status = after.Status
	case "":
		result.Labels, result.Annotations, result.Spec = after.Labels, after.Annotations, after.Spec
	default:
		return nil, errors.New("no such part of a node")
	}
	if id := before.Spec.ProviderID; id != "" && result.Spec.ProviderID != id {
		return nil, fmt.Errorf("spec.providerID: Forbidden: it is %q and cannot become %q", id, result.Spec.ProviderID)
	}
	return result, nil
}

// patch applies one of the three kinds that controllers send.
func patch(contentType string, body []byte, before, after *corev1.Node) error {
	old, err := json.Marshal(before)
	if err != nil {
		return err
	}
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return err
	}
	var changed []byte
	switch types.PatchType(kind) {
	case types.StrategicMergePatchType:
		changed, err = strategicpatch.StrategicMergePatch(old, body, corev1.Node{})
	case types.MergePatchType:
		changed, err = jsonpatch.MergePatch(old, body)
	case types.JSONPatchType:
		var list jsonpatch.Patch
		if list, err = jsonpatch.DecodePatch(body); err == nil {
			changed, err = list.Apply(old)
		}
	default:
		return fmt.Errorf("content type %s is none of a patch that a rehearsal knows", kind)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(changed, after)
}

// deny refuses a request, and remembers what it was.
func (p *proxy) deny(w http.ResponseWriter, code int, what, why string) {
	if what != "" {
		p.refuse(what)
	}
	reply(w, code, status(code, metav1.StatusReasonForbidden, "ccmadm rehearse: "+why))
}

func notFound(w http.ResponseWriter, q request) {
	const code = http.StatusNotFound
	reply(w, code, status(code, metav1.StatusReasonNotFound, q.resource+` "`+q.name+`" not found`))
}

func status(code int, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: statusType(), Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	}
}

func statusType() metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: "Status"} }

// reply answers in JSON, which every client takes.
func reply(w http.ResponseWriter, code int, object runtime.Object) {
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) // a client that is gone needs no answer
}

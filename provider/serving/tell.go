package serving

import (
	"strings"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/finding"
)

// told is what Events have said of requests that are pending, by their names.
type told struct {
	mu   sync.Mutex
	last map[string]string
}

// due reports whether it is something new.
func (t *told) due(name, text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last[name] == text {
		return false
	}
	t.last[name] = text
	return true
}

func (t *told) forget(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, name)
}

func (t *told) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.last)
}

// maxMessage is an Event's limit, less what is around.
const maxMessage = 900

// tell writes an Event on a request that stays pending, once for each reason.
func (a *Approver) tell(csr *certificatesv1.CertificateSigningRequest, held *Hold) {
	message := finding.Clean(held.Message)
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "..."
	}
	if !a.told.due(csr.Name, held.Reason+" "+message) {
		return
	}
	if !a.waits(csr) { // decided on or deleted while it was judged: nothing would forget it later
		a.told.forget(csr.Name)
		return
	}
	a.metrics.held.WithLabelValues(held.Reason).Inc()
	klog.InfoS("A serving certificate stays pending", "csr", csr.Name, "reason", held.Reason, "why", message)
	a.Recorder.Event(csr, corev1.EventTypeWarning, held.Reason, "the serving certificate is not approved: "+message)
}

// waits reports whether the request is still there and pending, as the cache has it now. The cache changes before its handlers forget one.
func (a *Approver) waits(csr *certificatesv1.CertificateSigningRequest) bool {
	object, there, err := a.requests.GetStore().GetByKey(csr.Name)
	now, ok := object.(*certificatesv1.CertificateSigningRequest)
	return err == nil && there && ok && now.UID == csr.UID && pending(now)
}

// metrics count nothing until they are registered.
type metrics struct {
	approved *k8smetrics.Counter
	held     *k8smetrics.CounterVec
	pending  k8smetrics.GaugeFunc
}

func newMetrics(pending func() int) *metrics {
	const subsystem = "ccmadm_serving_certificates"
	return &metrics{
		approved: k8smetrics.NewCounter(&k8smetrics.CounterOpts{
			Subsystem: subsystem, Name: "approved_total", Help: "Serving certificates of kubelets that were approved.",
			StabilityLevel: k8smetrics.ALPHA,
		}),
		held: k8smetrics.NewCounterVec(&k8smetrics.CounterOpts{
			Subsystem: subsystem, Name: "held_total", Help: "Reasons for which a serving certificate was not approved, as in Events.",
			StabilityLevel: k8smetrics.ALPHA,
		}, []string{"reason"}),
		pending: k8smetrics.NewGaugeFunc(&k8smetrics.GaugeOpts{
			Subsystem: subsystem, Name: "pending", Help: "Serving certificates that are not approved.",
			StabilityLevel: k8smetrics.ALPHA,
		}, func() float64 { return float64(pending()) }),
	}
}

// register shows them at /metrics.
func (m *metrics) register() {
	for _, metric := range []k8smetrics.Registerable{m.approved, m.held} {
		if err := legacyregistry.Register(metric); err != nil {
			klog.ErrorS(err, "A metric will be missing")
		}
	}
	if err := legacyregistry.Registerer().Register(m.pending); err != nil {
		klog.ErrorS(err, "A metric will be missing")
	}
}

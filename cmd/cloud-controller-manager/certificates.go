package main

import (
	"crypto/x509"
	"os"

	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

// registerCertificateEnds shows when the certificates end that this process was started with: its own, which a static pod
// has, and the first to end of the CAs that it trusts. A file that was renewed since counts once the process is
// started again, as it does for the API server.
func registerCertificateEnds(config *rest.Config) {
	ends := k8smetrics.NewGaugeVec(&k8smetrics.GaugeOpts{
		Subsystem: "ccmadm", Name: "certificate_expiration_timestamp_seconds",
		Help:           "When a certificate of this process ends, in seconds since 1970: its client certificate, or a CA that it trusts.",
		StabilityLevel: k8smetrics.ALPHA,
	}, []string{"certificate"})
	if err := legacyregistry.Register(ends); err != nil {
		klog.ErrorS(err, "A metric will be missing")
		return
	}
	for name, source := range map[string]struct {
		data []byte
		file string
	}{
		"client": {config.CertData, config.CertFile},
		"ca":     {config.CAData, config.CAFile},
	} {
		if end, found := firstEnd(source.data, source.file); found {
			ends.WithLabelValues(name).Set(float64(end))
		}
	}
}

// firstEnd is in seconds since 1970. Who has a token has no certificate.
func firstEnd(data []byte, file string) (int64, bool) {
	if len(data) == 0 && file != "" {
		var err error
		if data, err = os.ReadFile(file); err != nil {
			klog.ErrorS(err, "Cannot read when a certificate expires", "file", file)
			return 0, false
		}
	}
	if len(data) == 0 {
		return 0, false
	}
	certificates, err := certutil.ParseCertsPEM(data)
	if err != nil {
		klog.ErrorS(err, "Cannot read when a certificate expires", "file", file)
		return 0, false
	}
	return firstOf(certificates), true
}

func firstOf(certificates []*x509.Certificate) int64 {
	end := certificates[0].NotAfter
	for _, c := range certificates[1:] {
		if c.NotAfter.Before(end) {
			end = c.NotAfter
		}
	}
	return end.Unix()
}

package senders

import (
	"net"
	"net/http"
	"strings"

	"halite/api/remote"
)

// Protocols of senders. ProtocolUnknown stands for all protocols that the server does not know.
const (
	ProtocolV1      = "remote write 1.0"
	ProtocolV2      = "remote write 2.0"
	ProtocolUnknown = "unknown"
)

// Sender identifies a sender.
type Sender struct {
	// Address is the remote address without its port.
	Address string `json:"address"`
	// UserAgent is the header of that name, shortened to textBytesMax.
	UserAgent string `json:"userAgent"`
	Protocol  string `json:"protocol"`
}

// textBytesMax bounds a text that a sender chooses.
const textBytesMax = 200

// exampleBytesMax bounds the text of an example.
const exampleBytesMax = 1000

// versionHeader is the version of the protocol that a sender claims.
const versionHeader = "X-Prometheus-Remote-Write-Version"

// RemoteWrite returns the protocol of a remote-write request.
func RemoteWrite(r *http.Request) string {
	switch message, _ := remote.WriteMessage(r.Header.Get("Content-Type")); message {
	case remote.MessageV1:
		return ProtocolV1
	case remote.MessageV2:
		return ProtocolV2
	}
	return ProtocolUnknown
}

// senderOf returns the sender of a request.
func senderOf(r *http.Request, protocol string) Sender {
	address := r.RemoteAddr
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	return Sender{Address: address, UserAgent: clip(r.UserAgent(), textBytesMax), Protocol: protocol}
}

// clip shortens a text to a size. The result is valid UTF-8.
func clip(s string, most int) string {
	if len(s) <= most {
		return strings.ToValidUTF8(s, "�")
	}
	return strings.ToValidUTF8(s[:most], "�") + "…"
}

// Counts are the samples of a request or a sender by kind.
type Counts struct {
	Samples    uint64 `json:"samples"`
	Histograms uint64 `json:"histograms"`
	Exemplars  uint64 `json:"exemplars"`
}

func (c *Counts) add(o Counts) {
	c.Samples += o.Samples
	c.Histograms += o.Histograms
	c.Exemplars += o.Exemplars
}

// Outcome is the outcome of one write request.
type Outcome struct {
	// Protocol is the protocol of the request.
	Protocol string
	Accepted Counts
	// Dropped counts samples that relabelling rules dropped.
	Dropped Counts
	// Deduplicated counts samples of a replica that is not elected.
	Deduplicated Counts
	// NewestMs is the start of the minute of the newest sample, milliseconds since 1970; 0 if it is unknown.
	NewestMs int64
	// Status is the status of the response.
	Status int
	// Reason says why the whole request was refused; "" if it was not.
	Reason string
	// Samples counts by reason the samples that were not stored although the request was accepted. Omitted counts data that was
	// left out without a report to the sender.
	Samples, Omitted map[string]int
	// Example describes the first refusal.
	Example string
}

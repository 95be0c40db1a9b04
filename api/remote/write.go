package remote

import (
	"fmt"
	"strings"
)

// ProtobufType is the media type of both protocols' messages.
const ProtobufType = "application/x-protobuf"

const (
	writeMessage1 = "prometheus.WriteRequest"
	writeMessage2 = "io.prometheus.write.v2.Request"
)

// CheckWriteType returns an error unless contentType names the message of remote write 1.0. That message is also the default
// when the header or its proto parameter is absent.
func CheckWriteType(contentType string) error {
	if contentType == "" {
		return nil
	}
	parts := strings.Split(contentType, ";")
	if media := strings.TrimSpace(parts[0]); !strings.EqualFold(media, ProtobufType) {
		return fmt.Errorf("content type %q is not accepted by this server; only %s;proto=%s is acceptable",
			media, ProtobufType, writeMessage1)
	}
	for _, part := range parts[1:] {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return fmt.Errorf("content type %q has a parameter without a value: %q", contentType, part)
		}
		if !strings.EqualFold(strings.TrimSpace(name), "proto") {
			continue
		}
		switch value = strings.Trim(strings.TrimSpace(value), `"`); value {
		case writeMessage1:
		case writeMessage2:
			return fmt.Errorf("%s protobuf message is not accepted by this server; only accepts %s", value, writeMessage1)
		default:
			return fmt.Errorf("unknown type for remote write protobuf message %s, supported: %s", value, writeMessage1)
		}
	}
	return nil
}

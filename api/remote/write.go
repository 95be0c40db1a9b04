package remote

import (
	"fmt"
	"strings"
)

// ProtobufType is the media type of both protocols' messages.
const ProtobufType = "application/x-protobuf"

// Message is the full name of the message that a write request carries.
type Message string

// Messages of remote write 1.0 and 2.0.
const (
	MessageV1 Message = "prometheus.WriteRequest"
	MessageV2 Message = "io.prometheus.write.v2.Request"
)

// WriteMessage returns the message that contentType names. MessageV1 is the default when the header or its proto parameter is
// absent. It returns an error if the server does not accept the content type.
func WriteMessage(contentType string) (Message, error) {
	message := MessageV1
	if contentType == "" {
		return message, nil
	}
	parts := strings.Split(contentType, ";")
	if media := strings.TrimSpace(parts[0]); !strings.EqualFold(media, ProtobufType) {
		return "", fmt.Errorf("content type %q is not accepted by this server; only %s with proto=%s or proto=%s is acceptable",
			media, ProtobufType, MessageV2, MessageV1)
	}
	for _, part := range parts[1:] {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return "", fmt.Errorf("content type %q has a parameter without a value: %q", contentType, part)
		}
		if !strings.EqualFold(strings.TrimSpace(name), "proto") {
			continue
		}
		switch message = Message(strings.Trim(strings.TrimSpace(value), `"`)); message {
		case MessageV1, MessageV2:
		default:
			return "", fmt.Errorf("unknown type for remote write protobuf message %s, supported: %s, %s", message, MessageV2, MessageV1)
		}
	}
	return message, nil
}

package otlp

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// nestedMax bounds how deep lists and maps lie in the value of an attribute. The decoder calls itself for each level, and a
// stack that overflows ends the process.
const nestedMax = 100

// jsonDepthMax bounds the levels of JSON: those above a value, and up to four for each level of a value.
const jsonDepthMax = 16 + 4*nestedMax

// checkJSON returns an error for JSON with too many levels.
func checkJSON(body []byte) error {
	depth, quoted := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			if depth++; depth > jsonDepthMax {
				return fmt.Errorf("byte %d: the JSON has more than %d levels", i+1, jsonDepthMax)
			}
		case c == '}', c == ']':
			depth = max(0, depth-1)
		}
	}
	return nil
}

// withoutNulls returns JSON whose members with the value null have names that the decoder skips. In protobuf's JSON, null stands
// for an absent field, but the decoder refuses it. JavaScript writes NaN and infinities as null.
func withoutNulls(body []byte) []byte {
	if !bytes.Contains(body, []byte("null")) {
		return body
	}
	body = bytes.Clone(body)
	quoted, text, name := false, 0, 0 // where the last string and the last name of a member begin
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			if quoted = !quoted; quoted {
				text = i + 1
			}
		case quoted:
		case c == ':':
			name = text
		case c == 'n' && name > 0 && body[name] != '"' && body[name] != '\\': // no name of a field has an escape
			body[name] = '_' // no field's name begins with it
			name = 0
		case c == ',', c == '[':
			name = 0
		}
	}
	return body
}

// message is a message of OTLP that has attributes, or that messages with attributes lie in.
type message uint64

const (
	noMessage message = iota
	exportMessage
	resourceMetricsMessage
	scopeMetricsMessage
	resourceMessage
	scopeMessage
	metricMessage
	numbersMessage // a gauge or a sum
	histogramMessage
	exponentialMessage
	summaryMessage
	numberPointMessage
	histogramPointMessage
	exponentialPointMessage
	summaryPointMessage
	exemplarMessage
	keyValueMessage
	anyValueMessage
	arrayMessage
	keyValueListMessage
)

// checkProto returns an error if a value of a message in protobuf has too many levels. The decoder finds most other faults.
func checkProto(body []byte) error { return checkMessage(exportMessage, body, 0) }

// levelBytesMin is the size of a level in protobuf: tag and length of a list, and of the value in it.
const levelBytesMin = 4

// checkMessage checks a message inside the given number of values. It skips messages that are too short for too many levels.
func checkMessage(m message, body []byte, values int) error {
	if values+1+len(body)/levelBytesMin <= nestedMax {
		return nil
	}
	if m == anyValueMessage {
		if values++; values > nestedMax {
			return fmt.Errorf("the value of an attribute has more than %d levels", nestedMax)
		}
	}
	for len(body) > 0 {
		field, kind, n := protowire.ConsumeTag(body)
		if n < 0 {
			return protowire.ParseError(n)
		}
		body = body[n:]
		inner := noMessage
		if kind == protowire.BytesType {
			inner = m.inner(field)
		}
		if inner == noMessage {
			if n = protowire.ConsumeFieldValue(field, kind, body); n < 0 {
				return protowire.ParseError(n)
			}
			body = body[n:]
			continue
		}
		text, n := protowire.ConsumeBytes(body)
		if n < 0 {
			return protowire.ParseError(n)
		}
		body = body[n:]
		if err := checkMessage(inner, text, values); err != nil {
			return err
		}
	}
	return nil
}

// inner returns the message of a field.
func (m message) inner(field protowire.Number) message {
	switch message(field)<<8 | m {
	case 1<<8 | exportMessage:
		return resourceMetricsMessage
	case 1<<8 | resourceMetricsMessage:
		return resourceMessage
	case 2<<8 | resourceMetricsMessage, 1000<<8 | resourceMetricsMessage: // 1000 is the deprecated field
		return scopeMetricsMessage
	case 1<<8 | scopeMetricsMessage:
		return scopeMessage
	case 2<<8 | scopeMetricsMessage:
		return metricMessage
	case 5<<8 | metricMessage, 7<<8 | metricMessage:
		return numbersMessage
	case 9<<8 | metricMessage:
		return histogramMessage
	case 10<<8 | metricMessage:
		return exponentialMessage
	case 11<<8 | metricMessage:
		return summaryMessage
	case 1<<8 | numbersMessage:
		return numberPointMessage
	case 1<<8 | histogramMessage:
		return histogramPointMessage
	case 1<<8 | exponentialMessage:
		return exponentialPointMessage
	case 1<<8 | summaryMessage:
		return summaryPointMessage
	case 5<<8 | numberPointMessage, 8<<8 | histogramPointMessage, 11<<8 | exponentialPointMessage:
		return exemplarMessage
	case 1<<8 | resourceMessage, 3<<8 | scopeMessage, 12<<8 | metricMessage, 7<<8 | numberPointMessage,
		9<<8 | histogramPointMessage, 1<<8 | exponentialPointMessage, 7<<8 | summaryPointMessage, 7<<8 | exemplarMessage,
		1<<8 | keyValueListMessage:
		return keyValueMessage
	case 2<<8 | keyValueMessage, 1<<8 | arrayMessage:
		return anyValueMessage
	case 5<<8 | anyValueMessage:
		return arrayMessage
	case 6<<8 | anyValueMessage:
		return keyValueListMessage
	}
	return noMessage
}

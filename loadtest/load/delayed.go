package load

// delayedSample is a sample to be sent after its unit has sent a sample with the timestamp dueMs or a later one.
type delayedSample struct {
	dueMs int64
	sample
}

// delayHeap is a binary heap ordered by dueMs. The sample that is due first has index 0.
type delayHeap []delayedSample

func (h *delayHeap) push(x delayedSample) {
	*h = append(*h, x)
	q := *h
	for i := len(q) - 1; i > 0; {
		parent := (i - 1) / 2
		if q[parent].dueMs <= q[i].dueMs {
			return
		}
		q[parent], q[i] = q[i], q[parent]
		i = parent
	}
}

func (h *delayHeap) pop() delayedSample {
	q := *h
	top, end := q[0], len(q)-1
	q[0] = q[end]
	q[end] = delayedSample{}
	q = q[:end]
	*h = q
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(q) {
			return top
		}
		if child+1 < len(q) && q[child+1].dueMs < q[child].dueMs {
			child++
		}
		if q[i].dueMs <= q[child].dueMs {
			return top
		}
		q[i], q[child] = q[child], q[i]
		i = child
	}
}

package queue

// cause is why records died.
type cause struct {
	reason  Reason
	text    string
	records int
}

// causes are shared by the records that died of the same, one after the other.
type causes struct {
	list  []cause
	spare []uint32 // places in list without records
	last  uint32   // the place that was filled last
	bytes int      // of texts, counted for each record
}

func (c *causes) add(reason Reason, text string) uint32 {
	c.bytes += len(text)
	if int(c.last) < len(c.list) {
		if l := &c.list[c.last]; l.records > 0 && l.reason == reason && l.text == text {
			l.records++
			return c.last
		}
	}
	if n := len(c.spare); n > 0 {
		c.last, c.spare = c.spare[n-1], c.spare[:n-1]
		c.list[c.last] = cause{reason, text, 1}
		return c.last
	}
	c.last = uint32(len(c.list))
	c.list = append(c.list, cause{reason, text, 1})
	return c.last
}

// of is why a record died.
func (c *causes) of(r *record) (Reason, string) {
	if r.state != Dying && r.state != Dead {
		return NoReason, ""
	}
	return c.list[r.tag].reason, c.list[r.tag].text
}

// drop lets go of why a record died, if it did.
func (c *causes) drop(r *record) {
	if r.state != Dying && r.state != Dead {
		return
	}
	l := &c.list[r.tag]
	c.bytes -= len(l.text)
	if l.records--; l.records == 0 {
		*l = cause{}
		if c.spare = append(c.spare, r.tag); len(c.spare) == len(c.list) {
			c.list, c.spare = nil, nil
		}
	}
}

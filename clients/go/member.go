package pulsemq

import (
	"errors"
	"fmt"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// memberConfig is what a member of a group of either kind says of itself.
type memberConfig struct {
	topics     []string
	pattern    string
	instance   string
	clientName string
	session    time.Duration
	rebalance  time.Duration
}

// faults are what is wrong with it; options have the prefix.
func (c *memberConfig) faults(group, prefix string) (faults []error) {
	if group == "" || len(group) > 255 {
		faults = append(faults, fmt.Errorf("group %q: a name has 1 to 255 bytes", group))
	}
	if len(c.topics) == 0 && c.pattern == "" {
		faults = append(faults, fmt.Errorf("neither %sTopics nor %sPattern is given: say what to read", prefix, prefix))
	}
	if c.session < 500*time.Millisecond || c.session > 30*time.Minute {
		faults = append(faults, fmt.Errorf("%sSessionTimeout %v: %v to %v is allowed", prefix, c.session, 500*time.Millisecond, 30*time.Minute))
	}
	return faults
}

func (c *memberConfig) joinRequest(group string, kind GroupKind, id string) *proto.JoinGroupRequest {
	return &proto.JoinGroupRequest{
		Group: group, Kind: kind, MemberID: id, InstanceID: c.instance, ClientName: c.clientName,
		SessionTimeoutMs: uint32(c.session.Milliseconds()), RebalanceTimeoutMs: uint32(c.rebalance.Milliseconds()),
		Topics: c.topics, Pattern: c.pattern,
	}
}

// heartbeatWait is how long a heartbeat waits for another assignment.
func (c *memberConfig) heartbeatWait() time.Duration { return min(c.session/4, 5*time.Second) }

// memberOver says whether a member has to join anew: it was removed, with the group or from it.
func memberOver(err error) bool {
	return errors.Is(err, ErrUnknownMember) || errors.Is(err, ErrUnknownGroup)
}

// memberMayGoOn says whether a failed call of a member may succeed later.
func memberMayGoOn(err error) bool { return Retriable(err) || staleMetadata(err) }

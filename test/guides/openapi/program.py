# A program of a client that was generated from the OpenAPI document: its beginning is in docs/web.md. The package pawl_client exists only
# where test/integration/openapi-clients.test.ts runs it.
# region guide
import os

import httpx
from pawl_client import AuthenticatedClient
from pawl_client.api.sessions import await_run, open_session
from pawl_client.models import OpenSessionBody, Problem, RunAnswerCompleted

url = os.environ.get("PAWL_URL", "http://127.0.0.1:8787")
pawl = AuthenticatedClient(base_url=url, token=os.environ["KEY"], timeout=httpx.Timeout(60))

sent = open_session.sync(client=pawl, body=OpenSessionBody(agent="support", content="Where is order A1001?"))
if isinstance(sent, Problem):
    raise SystemExit(f"{sent.code}: {sent.detail}")
run = await_run.sync(sent.session_id, sent.message_id, wait=20, client=pawl)
if isinstance(run, RunAnswerCompleted):
    print(run.text)
# endregion

import json
import time
from datetime import datetime, timedelta, timezone

from pawl_client.api.decisions import approve_call
from pawl_client.api.lists import list_pending, list_sessions, list_tool_calls
from pawl_client.api.sessions import close_session, get_session, get_state, list_events, send_message
from pawl_client.models import (
    ApprovalDecidedEvent,
    ApproveCallBody,
    ListPendingKindItem,
    MessageReceivedEvent,
    ModelCompletedEvent,
    RunAnswerWaiting,
    RunPending,
    SendMessageBody,
)

session = sent.session_id


def settled(message):
    answer = await_run.sync(session, message, client=pawl)
    return settled(message) if isinstance(answer, RunPending) else answer


def events_after(seq):
    items = list_events.sync(session, after=seq, limit=5, client=pawl).items
    return [*items, *events_after(items[-1].seq)] if items else []


def pending_call():
    kinds = [ListPendingKindItem.APPROVAL, ListPendingKindItem.CLIENT]
    while True:
        for call in list_pending.sync(client=pawl, session=session, kind=kinds).items:
            return call
        time.sleep(0.1)


message = send_message.sync(session, client=pawl, body=SendMessageBody(content="refund"))
waiting = settled(message.message_id)
call = pending_call()
mistaken = approve_call.sync(session, call.call_id, client=pawl, body=ApproveCallBody(digest=f"{call.digest}0"))
approved = approve_call.sync(
    session,
    call.call_id,
    client=pawl,
    body=ApproveCallBody(digest=call.digest, note="Called the customer.", input_={"cents": 5}),
)
answers = [event.message_id for event in events_after(0) if isinstance(event, MessageReceivedEvent)]
refunded = settled(answers[-1])

events = events_after(0)
calls = list_tool_calls.sync(client=pawl, session=session)
status = get_session.sync(session, client=pawl)
state = get_state.sync(session, client=pawl)
unknown = get_session.sync(f"{session}-x", client=pawl)
invalid = list_sessions.sync(client=pawl, limit=0)
closed = close_session.sync_detailed(session, client=pawl)
now = datetime.now(timezone.utc)

print(
    json.dumps(
        {
            "waiting": [one.kind for one in waiting.pending] if isinstance(waiting, RunAnswerWaiting) else waiting.status,
            "pending": {
                "tool": call.tool,
                "reason": call.reason,
                "isDated": abs(now - call.waiting_since) < timedelta(minutes=10),
            },
            "isOther": approved.digest != call.digest,
            "refunded": refunded.text if isinstance(refunded, RunAnswerCompleted) else refunded.status,
            "inputTokens": sum(event.usage.input_tokens for event in events if isinstance(event, ModelCompletedEvent)),
            "decisions": [[event.by, event.note] for event in events if isinstance(event, ApprovalDecidedEvent)],
            "calls": [[one.tool, one.status] for one in calls.items],
            "status": [status.status, [wait.for_ for wait in status.waits_for], state.turns],
            "refusals": [[refused.status, refused.code] for refused in (mistaken, unknown, invalid)],
            "parts": [part.at for part in invalid.parts],
            "closed": [closed.status_code, closed.parsed],
        }
    )
)

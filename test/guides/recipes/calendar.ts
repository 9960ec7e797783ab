// The example of docs/recipes.md, compiled and run by our tests: an event in Google Calendar, where the id may be yours.
// #region guide
import { defineTool, ToolError } from 'pawl'
import { z } from 'zod'
import { request } from './http.ts'

const CALENDAR = process.env.GOOGLE_URL ?? 'https://www.googleapis.com'
const events = `${CALENDAR}/calendar/v3/calendars/primary/events`

interface CalendarEvent {
  id: string
  htmlLink: string
}

export const bookMeeting = defineTool({
  name: 'book_meeting',
  description: 'Book a meeting in the calendar.',
  input: z.object({ title: z.string(), start: z.iso.datetime({ offset: true }), end: z.iso.datetime({ offset: true }) }),
  effect: 'idempotent',
  execute: async ({ title, start, end }, { idempotencyKey: id, signal }) => {
    const headers = { authorization: `Bearer ${process.env.GOOGLE_TOKEN}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ id, summary: title, start: { dateTime: start }, end: { dateTime: end } })
    try {
      return await request<CalendarEvent>(`${events}?sendUpdates=all`, { method: 'POST', headers, body, signal })
    } catch (error) {
      // The id is taken: an earlier attempt has booked it.
      if (error instanceof ToolError && error.code === 'http_409')
        return await request<CalendarEvent>(`${events}/${id}`, { headers, signal })
      throw error
    }
  },
  toModel: ({ htmlLink }) => `Booked: ${htmlLink}`,
})
// #endregion

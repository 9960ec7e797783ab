// Courses of attempts: which attempts of a call throw, and which kill their worker, before one succeeds.

/** How a call's attempts end, from the first on; the attempt after the last of these succeeds. */
export type Course = ('throw' | 'die')[]

/** A turn: how its model call goes, and the calls it asks for. */
export interface Step {
  model: Course
  calls: { tool: 'look' | 'put' | 'pay'; course: Course }[]
}

/** One entry into a body. */
export interface Entered {
  session: string
  /** `model:<run>:<turn>`, or the call id. */
  call: string
  attempt: number
}

/** Throws and deaths in any order, few enough that the call succeeds in the end. */
function someCourse(random: () => number): Course {
  const throws = Math.floor(random() * 3)
  const deaths = Math.floor(random() * 2)
  const course: Course = [
    ...Array.from({ length: throws }, () => 'throw' as const),
    ...Array.from({ length: deaths }, () => 'die' as const),
  ]
  return course
    .map((what) => ({ what, at: random() }))
    .toSorted((one, other) => one.at - other.at)
    .map(({ what }) => what)
}

/** A session's turns. */
export function someSteps(random: () => number, turns: number): Step[] {
  const tools = ['look', 'put', 'pay'] as const
  return Array.from({ length: turns }, () => ({
    model: someCourse(random),
    calls: Array.from({ length: 1 + Math.floor(random() * 2) }, () => ({
      tool: tools[Math.floor(random() * tools.length)] ?? 'look',
      course: someCourse(random),
    })),
  }))
}

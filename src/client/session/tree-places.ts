// Where a watch of a tree is: the last event of each session that it is showing, also as a text from which the watch resumes.
import type { TreeItem } from '../types.ts'
import type { TreeStart } from './tree-watch.ts'

export interface TreePlaces {
  /** Notes an item that was shown. Returns the text from which a watch resumes after it; undefined after an item that is not durable. */
  note(item: TreeItem): string | undefined
}

/** What the id of a session below another one has more than that one's. */
const IN_TREE = /^(\/[0-9a-f]{12})*$/
const NUMBER = /^\d{1,15}$/

export function treePlaces(root: string, start: TreeStart): TreePlaces {
  const places = new Map(typeof start === 'number' ? [[root, start]] : Object.entries(start))
  return {
    note(item) {
      if (item.type !== 'event') return undefined
      const { sessionId, event } = item
      places.set(sessionId, event.seq)
      if (event.type === 'answer_requested' && event.child) places.set(event.child.session, places.get(event.child.session) ?? 0)
      if (sessionId !== root && (event.type === 'caller_told' || event.type === 'session_closed')) places.delete(sessionId)
      return String(new URLSearchParams([...places].map(([at, seq]): [string, string] => [at.slice(root.length), String(seq)])))
    },
  }
}

/** Where a text says that a watch of the tree resumes; undefined if it does not say so. A number is an event of the root. */
export function treeStartIn(root: string, text: string): TreeStart | undefined {
  if (NUMBER.test(text)) return Number(text)
  const places = [...new URLSearchParams(text)]
  const isSound = places.length > 0 && places.every(([below, seq]) => IN_TREE.test(below) && NUMBER.test(seq))
  return isSound ? Object.fromEntries(places.map(([below, seq]) => [`${root}${below}`, Number(seq)])) : undefined
}

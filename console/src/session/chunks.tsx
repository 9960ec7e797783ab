// A long list in parts: the newest are there at once, the others follow while the browser has nothing else to do. The browser lays out and
// paints only what is near the window (`content-visibility`), and still finds text in all of it.
import { Component, type VNode } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { Item } from './timeline.ts'

const SIZE = 25
/** How many parts are there at once. */
const AT_ONCE = 4
/** Roughly, for the scroll bar. */
const ITEM_PX = 56

interface ChunksProps {
  items: readonly Item[]
  /** Changes what all items look like. */
  mode: string
  render(item: Item): VNode
}

/** The items in their order. An item is rendered again only if its version or the mode has changed. */
export function Chunks({ items, mode, render }: ChunksProps) {
  const count = Math.ceil(items.length / SIZE)
  /** How many parts at the end are there. */
  const [shown, setShown] = useState(AT_ONCE)
  const isPartial = shown < count
  useEffect(() => {
    if (!isPartial) return undefined
    const handle = whenIdle(() => setShown((before) => before + 1))
    return () => cancelIdle(handle)
  }, [isPartial, shown])
  const first = Math.max(0, count - shown)
  const parts: VNode[] = []
  for (let at = first; at < count; at++) {
    const part = items.slice(at * SIZE, (at + 1) * SIZE)
    parts.push(<Chunk key={at} items={part} version={`${mode} ${versionOf(part)}`} render={render} />)
  }
  return (
    <div class="timelines" role="group" aria-label="Timeline">
      {first > 0 && <div aria-busy="true" style={{ height: `${first * SIZE * ITEM_PX}px` }} />}
      {parts}
    </div>
  )
}

interface ChunkProps {
  items: readonly Item[]
  version: string
  render(item: Item): VNode
}

class Chunk extends Component<ChunkProps> {
  override shouldComponentUpdate({ version }: ChunkProps): boolean {
    return version !== this.props.version
  }

  override render({ items, render }: ChunkProps): VNode {
    return <ol class="timeline">{items.map(render)}</ol>
  }
}

function versionOf(items: readonly Item[]): number {
  let version = items.length
  for (const { seq, version: changes } of items) version = (version * 31 + seq * 7 + changes) | 0
  return version
}

const whenIdle: (run: () => void) => number = globalThis.requestIdleCallback ?? ((run) => setTimeout(run, 16) as never)
const cancelIdle: (handle: number) => void = globalThis.cancelIdleCallback ?? clearTimeout

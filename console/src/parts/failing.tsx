import { Component, type ComponentChildren } from 'preact'
import { Empty } from './common.tsx'

interface State {
  failure?: string
}

/** If a page cannot show what it got, says so instead of leaving the window empty. */
export class Failing extends Component<{ children: ComponentChildren }, State> {
  override state: State = {}

  static override getDerivedStateFromError(error: unknown): State {
    return { failure: error instanceof Error ? error.message : String(error) }
  }

  override render() {
    const { failure } = this.state
    if (failure === undefined) return this.props.children
    return (
      <main>
        <Empty isPage title="This page cannot be shown">
          <p>The console of this version cannot read what the server has: {failure}</p>
          <button type="button" onClick={() => location.reload()}>
            Load it again
          </button>
        </Empty>
      </main>
    )
  }
}

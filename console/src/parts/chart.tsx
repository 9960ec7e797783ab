// Bars for sums: of a day each, or of an agent, a model or a session each. The table below a chart has the same numbers.
// Drawn with the elements of the page: these follow its colours, and depend on no setting of the browser.
import { useEffect, useRef, useState } from 'preact/hooks'
import { scaleFor } from '../session/scale.ts'

export interface ChartProps {
  /** What the bars show. */
  title: string
  bars: readonly { name: string; value: number }[]
  format(value: number): string
}

const MOST = 31
const HEIGHT = 220
/** Around the bars: what the numbers and the names need. */
const [LEFT, BOTTOM, TOP] = [70, 26, 10]
/** A name needs this much of the axis. */
const NAME_PX = 90
const WIDEST = 60
const NAME_CHARS = 14

export default function Chart({ title, bars, format }: ChartProps) {
  const place = useRef<HTMLDivElement>(null)
  const [width, setWidth] = useState(0)
  useEffect(() => {
    const element = place.current
    if (!element) return undefined
    const resized = new ResizeObserver(() => setWidth(element.clientWidth))
    resized.observe(element)
    return () => resized.disconnect()
  }, [])
  const shown = bars.slice(0, MOST)
  return (
    <figure class="chart">
      <figcaption class="aside">{title}</figcaption>
      <div role="img" aria-label={`${title}: ${shown.map(({ name, value }) => `${name} ${format(value)}`).join(', ')}`} ref={place}>
        {width > LEFT && <Bars bars={shown} format={format} width={width} />}
      </div>
    </figure>
  )
}

function Bars({ bars, format, width }: Omit<ChartProps, 'title'> & { width: number }) {
  const { top, marks } = scaleFor(Math.max(0, ...bars.map(({ value }) => value)))
  const bottom = HEIGHT - BOTTOM
  const yOf = (value: number): number => bottom - (value / top) * (bottom - TOP)
  const band = (width - LEFT) / bars.length
  const thickness = Math.min(WIDEST, band * 0.6)
  const middleOf = (index: number): number => LEFT + band * (index + 0.5)
  const every = Math.max(1, Math.ceil(NAME_PX / band))
  return (
    <svg width={width} height={HEIGHT} aria-hidden="true">
      {marks.map((mark) => (
        <g key={mark}>
          <line x1={LEFT} x2={width} y1={yOf(mark)} y2={yOf(mark)} />
          <text x={LEFT - 8} y={yOf(mark)} text-anchor="end" dominant-baseline="middle">
            {format(mark)}
          </text>
        </g>
      ))}
      {bars.map(({ name, value }, index) => (
        <g key={name}>
          <rect x={middleOf(index) - thickness / 2} y={yOf(value)} width={thickness} height={bottom - yOf(value)} />
          {index % every === 0 && (
            <text x={middleOf(index)} y={HEIGHT - 8} text-anchor="middle">
              {name.length > NAME_CHARS ? `${name.slice(0, NAME_CHARS - 1)}…` : name}
            </text>
          )}
        </g>
      ))}
    </svg>
  )
}

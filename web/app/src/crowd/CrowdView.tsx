import '../style/crowd.css'
import { useEffect, useState } from 'preact/hooks'
import { crowd as text } from '../messages/crowd.ts'
import { agoText } from '../messages/index.ts'
import type { PageSession } from '../ui/site.ts'
import { crowds } from './crowds.ts'
import { mostOf, type History } from './history.ts'

/** The interval between updates. Screen readers do not announce updates. */
const LOOK_MS = 1000
/** Columns of the chart, at least. A young page has fewer buckets, and begins at their right. */
const COLUMNS_MIN = 32
const HEIGHT = 24

/** Shows since when a page is available, and how many people had it open over time. */
export function CrowdView({ session }: { session: PageSession }) {
  const cid = session.swarm.value?.root
  const [shown, setShown] = useState<{ history: History; now: number } | null>(null)
  useEffect(() => {
    const look = () => {
      const crowd = crowds.get(cid ?? '')
      setShown(crowd ? { history: crowd.history, now: crowd.people } : null)
    }
    look()
    const timer = setInterval(look, LOOK_MS)
    return () => clearInterval(timer)
  }, [cid])
  if (shown === null) return null
  const { age, people } = shown.history
  const most = mostOf(shown.history)
  const columns = Math.max(COLUMNS_MIN, people.length)
  const bars = people.map((count, i) => {
    const height = (count / Math.max(1, most)) * HEIGHT
    return `M${columns - people.length + i} ${HEIGHT}v${-height}h.8v${height}z`
  })
  return (
    <figure class="crowd">
      <svg
        viewBox={`0 0 ${columns} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={text('chart', { now: Math.max(1, shown.now), most })}
      >
        <path d={bars.join('')} />
      </svg>
      <figcaption>
        <p>{text('since', { ago: agoText(age * 1000), count: most })}</p>
        <p class="small">{text('told')}</p>
      </figcaption>
    </figure>
  )
}

import { useEffect, useState } from 'preact/hooks'
import { secondsText } from '../messages/index.ts'
import { shell } from '../messages/shell.ts'
import type { Site } from '../ui/site.ts'

const LOOK_MS = 250

/** Shows that the server cannot be reached, and when the next attempt is made, or that it refuses this page's origin. */
export function Banner({ site }: { site: Site }) {
  const retryAt = site.retryAt.value
  switch (site.connection.value) {
    case 'connecting':
    case 'open':
      return null
    case 'lost':
      return (
        <p class="banner" role="alert">
          {shell('lost')} {/* Counting down aloud would drown everything else. */}
          <span class="small" aria-hidden="true">
            <Countdown key={retryAt} to={retryAt} />
          </span>
        </p>
      )
    case 'refused':
      return (
        <p class="banner" role="alert">
          {shell('originRefused', { origin: location.origin })} {shell('allowOrigin')}
        </p>
      )
  }
}

function Countdown({ to }: { to: number | null }) {
  const [left, setLeft] = useState(() => leftTo(to))
  useEffect(() => {
    const timer = setInterval(() => setLeft(leftTo(to)), LOOK_MS)
    return () => clearInterval(timer)
  }, [to])
  return <>{left > 0 ? shell('tryingIn', { wait: secondsText(left) }) : shell('trying')}</>
}

function leftTo(to: number | null): number {
  return to === null ? 0 : to - performance.now()
}

import type { BlockMap } from '../swarm/index.ts'
import { panel } from '../words/panel.ts'
import { runsOf, tallyOf, type Run } from './strip.ts'
import { pictureText } from './tell.ts'

/** Places of the picture: more blocks than that share them. */
const PLACES = 240
const HEIGHT = 24

/**
 * The blocks of a page, in its order: a full bar for what is here, a lower one, by copies, for what others have, an empty
 * frame for what nobody has. Heights and frames tell it without colours.
 */
export function Strip({ map }: { map: BlockMap }) {
  const runs = runsOf(map, PLACES)
  const places = Math.min(PLACES, map.here.length)
  return (
    <figure class="strip">
      <svg
        viewBox={`0 0 ${places} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={pictureText(tallyOf(map))}
      >
        {runs.map((run) => (
          <Bar key={run.from} run={run} />
        ))}
      </svg>
      <figcaption>
        <Key class="here" words={panel('keyHere')} />
        <Key class="elsewhere" words={panel('keyElsewhere')} />
        <Key class="nowhere" words={panel('keyNowhere')} />
      </figcaption>
    </figure>
  )
}

function Bar({ run: { where, from, length } }: { run: Run }) {
  switch (where) {
    case 'here':
      return <rect class="here" x={from} width={length} y={0} height={HEIGHT} />
    case 'nowhere':
      return <rect class="nowhere" x={from} width={length} y={0} height={HEIGHT} />
    case 1:
    case 2:
    case 3: {
      const height = where * 6
      return <rect class="elsewhere" x={from} width={length} y={HEIGHT - height} height={height} />
    }
  }
}

function Key({ class: which, words }: { class: string; words: string }) {
  return (
    <span>
      <svg width="14" height="14" viewBox="0 0 14 14" aria-hidden="true">
        {which === 'elsewhere' ? (
          <path class="elsewhere" d="M0 11h4v3H0zM5 8h4v6H5zM10 5h4v9h-4z" />
        ) : (
          <rect class={which} x="1" y="1" width="12" height="12" />
        )}
      </svg>{' '}
      {words}
    </span>
  )
}

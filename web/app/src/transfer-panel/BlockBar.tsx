import type { BlockMap } from '@watchfire/pages/swarm'
import { panel } from '../messages/panel.ts'
import { runsOf, countBlocks, type Run } from './block-runs.ts'
import { pictureText } from './sentences.ts'

/** Columns of the bar. If there are more blocks, several share a column. */
const PLACES = 240
const HEIGHT = 24

/**
 * A bar of a page's blocks, in the order of the page. A block that is here is full height. A block that peers have is
 * lower, by its number of copies. A block that no peer has is an empty frame. Heights and frames make it readable
 * without colours.
 */
export function BlockBar({ map }: { map: BlockMap }) {
  const runs = runsOf(map, PLACES)
  const places = Math.min(PLACES, map.here.length)
  return (
    <figure class="block-bar">
      <svg viewBox={`0 0 ${places} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={pictureText(countBlocks(map))}>
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

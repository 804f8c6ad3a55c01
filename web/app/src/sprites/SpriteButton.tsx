import type { JSX } from 'preact'
import { grid as text } from '../messages/grid.ts'
import type { PictureState } from './picture-store.ts'
import { drawingOf, questionMark } from './drawings.tsx'
import type { Game } from './game.ts'
import { nameOf } from './name.ts'
import type { Body } from './physics.ts'
import { RADIUS } from './physics.ts'

/** A sprite on the stage. */
export function SpriteButton({ body, game }: { body: Body; game: Game | null }) {
  const state = body.picture === null ? null : (game?.pictures.state(body.picture).value ?? COMING)
  const name = nameOf(body)
  const keys = (more: string | null) => (more === null ? text('keys', { name }) : text('keysAnd', { name, more }))
  return (
    <button
      type="button"
      class="sprite"
      aria-label={keys(state === null || state.kind === 'shown' ? null : sentenceOf(state))}
      aria-busy={state?.kind === 'coming'}
      title={titleOf(name, state)}
      ref={(element) => game?.draws(body, element)}
      onKeyDown={(event) => {
        if (game?.handleKey(body, event.key)) event.preventDefault()
      }}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId)
        game?.grab(body, event)
      }}
      onPointerMove={(event) => game?.drag(body, event)}
      onPointerUp={(event) => game?.letGo(body, event)}
      onPointerCancel={(event) => game?.letGo(body, event)}
    >
      <Face body={body} name={name} state={state} />
    </button>
  )
}

const COMING: PictureState = { kind: 'coming' }

function Face({ body, name, state }: { body: Body; name: string; state: PictureState | null }) {
  const drawn = (picture: JSX.Element) => (
    <svg viewBox="0 0 64 64" width={2 * RADIUS} height={2 * RADIUS} aria-hidden="true">
      {picture}
    </svg>
  )
  if (state === null) return drawn(drawingOf(body.sprite).picture)
  switch (state.kind) {
    case 'coming':
      return (
        <span class="coming" aria-hidden="true">
          {name}
        </span>
      )
    case 'shown':
      return <img src={state.address} width={2 * RADIUS} height={2 * RADIUS} alt="" draggable={false} />
    case 'missing':
      return drawn(questionMark)
  }
}

function titleOf(name: string, state: PictureState | null): string | undefined {
  if (state === null) return undefined
  return state.kind === 'shown' ? name : text('titleAnd', { name, more: sentenceOf(state) })
}

function sentenceOf(state: Exclude<PictureState, { kind: 'shown' }>): string {
  return state.kind === 'coming' ? text('coming') : state.sentence
}

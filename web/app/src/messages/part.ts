import { part as definePart, type Messages, type Part as PartOf } from '@watchfire/pages/messages'
import type { ComponentChild } from 'preact'

/** A part of the catalogue whose texts may have nodes of the interface in them. */
export type Part<P extends Messages> = PartOf<P, ComponentChild>

/** Defines a part of the catalogue in English; other languages refer to it by its name. */
export const part: <const P extends Messages>(name: string, messages: P) => Part<P> = definePart

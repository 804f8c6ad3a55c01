import { part } from './part.ts'

/** The words of names for peers, see `names/peer-name.ts`. A language may have any number of each; spaces are between them. */
export const peers = part('peers', {
  name: '{adjective} {animal}',
  adjectives:
    'Amber Azure Blue Bold Brave Bright Brisk Calm Clever Copper Coral Crimson Daring Eager Fair Gentle Glad Golden Green Happy Indigo Ivory ' +
    'Jolly Keen Kind Lively Lucky Merry Mild Noble Olive Quick Quiet Red Rosy Silver Sunny Swift Warm Wise',
  animals:
    'badger bat bear beaver bee bison crane crow deer dolphin dove duck eagle falcon ferret finch fox frog gecko goat goose hare hawk ' +
    'hedgehog heron horse ibis jay koala lark lemur lion llama lynx magpie marten mole moose moth newt otter owl panda parrot puffin rabbit ' +
    'raven robin seal sparrow squirrel stork swan tiger toad turtle walrus whale wolf wren',
})

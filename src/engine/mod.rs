//! Clock and sockets: the life of a run, from launch to verdict. Tells everything as events, reads no database.
